"""The folder of a search for hyperparameters: its settings, its trials, and Optuna's study.

Each trial is a run folder of its own. What all trials have in common is in search.json, and what
has become of each is in Optuna's storage, study.db, which Optuna's own programs can read as well.
"""

import dataclasses
import enum
import functools
import json
import os
import pathlib
import secrets
import sqlite3
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from t2t_lite import extras, files, json_files, registry
from t2t_lite.errors import UserError
from t2t_lite.runs.checkpoint_files import checkpoints, step_of
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.selection import Criterion, Curve, best_steps
from t2t_lite.settings import meant_by

if TYPE_CHECKING:
    import optuna

SETTINGS = "search.json"
STUDY = "study.db"
_STUDY_NAME = "search"  # of the only study in the file
# Attributes of Optuna's trials.
HPARAMS, REASON = "hparams", "reason"
_WAIT = 60.0  # seconds to wait while another process writes
_KINDS = {"objective": str, "hparams": str, "problem": str, "random_seed": int}


class State(enum.Enum):
    """What has become of a trial."""

    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"


# By the names of Optuna's states.
_STATES = {
    "RUNNING": State.RUNNING,
    "COMPLETE": State.COMPLETE,
    "PRUNED": State.PRUNED,
    "FAIL": State.FAILED,
}


@dataclasses.dataclass(frozen=True)
class Trial:
    """One trial of a search.

    Attributes:
        number: from 0.
        folder: its run folder.
        state: what has become of it.
        hparams: the drawn hyperparameters, by name.
        value: the best value of its evaluations; None: it is running, has failed, or its folder has
            been deleted.
        step: the step of that evaluation; None as for `value`.
        reason: why it failed; "": it did not.
    """

    number: int
    folder: pathlib.Path
    state: State
    hparams: Mapping[str, str]
    value: float | None
    step: int | None
    reason: str


@dataclasses.dataclass(frozen=True)
class SearchFolder:
    """An opened folder of a search.

    Attributes:
        folder: the folder.
        settings: what all trials have in common, by name.
    """

    folder: pathlib.Path
    settings: Mapping[str, Any]

    @classmethod
    def open(cls, folder: pathlib.Path) -> Self:
        """Opens the folder of a search that has begun.

        Raises:
            UserError: its settings cannot be read, or Optuna is not installed.
        """
        extras.require(extras.TUNE, "a search for hyperparameters")
        return cls.read(folder)

    @classmethod
    def read(cls, folder: pathlib.Path) -> Self:
        """Reads the settings of a search, for which Optuna need not be installed.

        Raises:
            UserError: they cannot be read.
        """
        settings = json_files.read_object(folder / SETTINGS)
        settings.check(_KINDS)
        return cls(folder, settings)

    @classmethod
    def begin(cls, folder: pathlib.Path, settings: Mapping[str, Any]) -> Self:
        """Creates the folder of a search, or opens that of the same one.

        Args:
            folder: the folder.
            settings: those of the search, by name; a `random_seed` of None is the folder's,
                or is drawn.

        Raises:
            UserError: the folder holds a search with other settings, or a run.
        """
        extras.require(extras.TUNE, "a search for hyperparameters")
        if is_search(folder):
            found = cls.open(folder)
            found._refuse_others(settings)
            return found
        folder.mkdir(parents=True, exist_ok=True)
        if settings["random_seed"] is None:
            settings = {**settings, "random_seed": secrets.randbelow(2**31)}
        files.write_text(folder / SETTINGS, json.dumps(settings, indent=1) + "\n")
        return cls.open(folder)

    def _refuse_others(self, settings: Mapping[str, Any]) -> None:
        differences = [
            f"{name}: {self.settings[name]!r} != {value!r}"
            for name, value in settings.items()
            if name in self.settings  # an earlier release may not have had it
            and (name, value) != ("random_seed", None)
            and _meant(name, self.settings[name]) != _meant(name, value)
        ]
        if differences:
            raise UserError(
                f"{self.folder} holds a search with other settings (there != now): "
                f"{'; '.join(differences)}. Choose another --output_dir, or use the old settings"
            )

    @property
    def criterion(self) -> Criterion:
        """What trials are compared by."""
        return Criterion(self.settings["objective"], not self.settings["maximize"])

    def trial_folder(self, number: int) -> pathlib.Path:
        """Returns the run folder of a trial."""
        return self.folder / f"trial-{number:03d}"

    def curve(self, number: int) -> Curve:
        """Returns the finite values of a trial's evaluations by step."""
        sign = -1.0 if self.criterion.minimize else 1.0
        curve = self.criterion.curve(self.trial_folder(number))
        return {step: sign * value for step, value in curve.items()}

    def best(self, number: int) -> tuple[int, float] | None:
        """Returns step and value of a trial's best evaluation; None if no value is finite."""
        curve = self.criterion.curve(self.trial_folder(number))
        steps = best_steps(curve, 1)
        return (steps[0], self.curve(number)[steps[0]]) if steps else None

    def newest_step(self, number: int) -> int:
        """Returns the step of a trial's newest checkpoint; 0: there is none."""
        return max(map(step_of, checkpoints(self.trial_folder(number))), default=0)

    @functools.cached_property
    def study(self) -> "optuna.Study":
        """Optuna's study, which is created if there is none.

        Several processes may use it at once, and may be killed at any time.

        Raises:
            UserError: its file cannot be read.
        """
        import optuna

        return optuna.create_study(
            storage=self._storage,
            study_name=_STUDY_NAME,
            direction="minimize" if self.criterion.minimize else "maximize",
            load_if_exists=True,
        )

    @functools.cached_property
    def _storage(self) -> "optuna.storages.RDBStorage":
        """What holds Optuna's study."""
        import optuna
        import sqlalchemy.pool

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        # Not by its address, in which "?" and "#" would not belong to the path.
        engine = {
            "creator": lambda: sqlite3.connect(self.folder / STUDY, timeout=_WAIT),
            "poolclass": sqlalchemy.pool.NullPool,
        }
        try:
            return optuna.storages.RDBStorage("sqlite://", engine_kwargs=engine)
        except sqlalchemy.exc.DatabaseError as error:
            raise UserError(
                f"{self.folder / STUDY} cannot be read: {error.orig}; restore it from a copy"
            ) from error

    def note(self, number: int, name: str, text: str) -> None:
        """Writes an attribute of a trial to the study."""
        self._storage.set_trial_user_attr(self._trial_id(number), name, text)

    def report(self, number: int) -> "optuna.trial.FrozenTrial":
        """Tells the study the evaluations of a trial; returns what it knows of the trial."""
        trial_id = self._trial_id(number)
        known = self._storage.get_trial(trial_id).intermediate_values
        for step, value in self.curve(number).items():
            if step not in known:
                self._storage.set_trial_intermediate_value(trial_id, step, value)
        return self._storage.get_trial(trial_id)

    def _trial_id(self, number: int) -> int:
        study_id = self._storage.get_study_id_from_name(_STUDY_NAME)
        return self._storage.get_trial_id_from_study_id_trial_number(study_id, number)

    def trials(self) -> list[Trial]:
        """Returns all trials in the order of their numbers."""
        return [self._trial(trial) for trial in self.study.get_trials(deepcopy=False)]

    def drawn(self, trial: "optuna.trial.FrozenTrial") -> str:
        """Returns the hyperparameters of a trial, such as `"batch_size=512,pos=emb"`.

        Raises:
            UserError: another program has added it.
        """
        if HPARAMS not in trial.user_attrs:
            raise UserError(
                f"{self.folder / STUDY}: t2t-trainer has not drawn trial {trial.number}: other "
                "programs may read the study, but must not add trials; restore it from a copy"
            )
        hparams: str = trial.user_attrs[HPARAMS]
        return hparams

    def _trial(self, found: "optuna.trial.FrozenTrial") -> Trial:
        hparams = assigned(self.drawn(found))
        state = _STATES[found.state.name]
        is_finished = state in (State.COMPLETE, State.PRUNED)
        step, value = (is_finished and self.best(found.number)) or (None, None)
        return Trial(
            number=found.number,
            folder=self.trial_folder(found.number),
            state=state,
            hparams=hparams,
            value=value,
            step=step,
            reason=found.user_attrs.get(REASON, ""),
        )


def is_search(folder: pathlib.Path) -> bool:
    """Whether a folder is that of a search."""
    return (folder / SETTINGS).is_file()


def criterion_of(run: RunFolder) -> Criterion:
    """Returns what ranks the checkpoints of a run: in a trial, also in the search's direction."""
    criterion = Criterion.named(run.settings.best_metric, run.problem)
    parent = run.folder.absolute().parent
    if is_search(parent):
        objective = SearchFolder.read(parent).criterion
        return objective if objective.name == criterion.name else criterion
    return criterion


def search_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of a search, which no command's output may replace."""
    return [folder / SETTINGS, folder / STUDY]


def best_trial(trials: Iterable[Trial], criterion: Criterion) -> Trial | None:
    """Returns the trial with the best value, of equals the first; None if none is complete."""
    sign = -1.0 if criterion.minimize else 1.0
    complete = [t for t in trials if t.state is State.COMPLETE and t.value is not None]
    return max(complete, key=lambda trial: sign * (trial.value or 0.0), default=None)


def assigned(assignments: str) -> dict[str, str]:
    """Returns the texts of a string such as `"batch_size=512,pos=emb"` by name."""
    pairs = (item.partition("=") for item in assignments.split(","))
    return {name: text for name, _, text in pairs}


def _meant(name: str, value: Any) -> Any:
    """Returns what a setting stands for, however it is spelled."""
    if not isinstance(value, str):
        return value
    if name == "problem":
        return registry.problem(value).name
    if name == "warm_start_from":
        return value and os.path.abspath(value)
    return meant_by(value) if name in ("hparams", "decode_hparams") else value
