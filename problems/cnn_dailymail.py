"""T2T's summaries of news: the highlights of articles of CNN and the Daily Mail.

The stories are those of Hermann et al. (2015, arXiv:1506.03340), the splits and the full stops
those of See et al. (2017, arXiv:1704.04368). Put `cnn_stories.tgz` and `dailymail_stories.tgz`
(cs.nyu.edu/~kcho/DMQA) into `--tmp_dir`: Google, where they are, asks before it sends large files.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from t2t_lite import registry
from t2t_lite.data.corpora.archives import iterate_members
from t2t_lite.data.corpora.corpora import Corpus, RemoteFile, Text
from t2t_lite.data.corpora.segments import Pair
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.problems.listed_corpora import ListedCorpora
from t2t_lite.text.bad_input import BadInput

_DRIVE = "https://drive.google.com/uc?export=download&id="
_LISTS = "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists/"
STORIES = (
    RemoteFile(
        f"{_DRIVE}0BwmD_VLjROrfTHk4NFg2SndKcjQ",
        158_577_824,
        "e8fbc0027e54e0a916abd9c969eb35f708ed1467d7ef4e3b17a56739d65cb200",
        name="cnn_stories.tgz",
    ),
    RemoteFile(
        f"{_DRIVE}0BwmD_VLjROrfM1BxdkxVaTY2bWs",
        file_hash="ad69010002210b7c406718248ee66e65868b9f6820f163aa966369878d14147e",
        name="dailymail_stories.tgz",
    ),
)
# The addresses of the stories of each split.
URLS = {
    DatasetSplit.TRAIN: RemoteFile(f"{_LISTS}all_train.txt"),
    DatasetSplit.EVAL: RemoteFile(
        f"{_LISTS}all_val.txt",
        2_433_674,
        "81887e982b045083409c6ee838aede8ff4b97291605bcfb21bffc456a16991db",
    ),
    DatasetSplit.TEST: RemoteFile(
        f"{_LISTS}all_test.txt",
        2_109_547,
        "c4f5efb5ec2126430a5c156efbd13d0e9c4cb490169e552c38b4a51981a009bd",
    ),
}
_HIGHLIGHT = "@highlight"
_ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")


@dataclasses.dataclass(frozen=True)
class StoryCorpus(Corpus):
    """Articles and their highlights, in the order of the archives.

    A member is called after the SHA-1 of its story's address.

    Attributes:
        archives: the archives of the stories.
        urls: the addresses of the stories to read.
    """

    archives: tuple[RemoteFile, ...]
    urls: RemoteFile

    @property
    def texts(self) -> Sequence[Text]:
        """The list of addresses."""
        return (Text(self.urls),)

    @property
    def files(self) -> Sequence[RemoteFile]:
        """The archives and the list."""
        return (*self.archives, self.urls)

    def _raw_pairs(self, tmp_dir: str, bad: BadInput) -> Iterator[Pair]:
        urls = Text(self.urls).lines(tmp_dir, bad)
        wanted = {hashlib.sha1(url.strip().encode("utf-8", "replace")).hexdigest() for url in urls}
        for archive in self.archives:
            for name, lines in iterate_members(archive.path(tmp_dir), (".story",), bad):
                if name.rpartition("/")[2].removesuffix(".story") in wanted:
                    yield article_and_highlights(lines)


def article_and_highlights(lines: Iterable[str]) -> Pair:
    """Returns the text of a story before its first highlight, and its highlights.

    Lines that do not end a sentence get a full stop.
    """
    article: list[str] = []
    highlights: list[str] = []
    part = article
    for line in map(str.strip, lines):
        if line.startswith(_HIGHLIGHT):
            part = highlights
        elif line:
            is_whole = line.endswith(_ENDS) or _HIGHLIGHT in line
            part.append(line if is_whole else f"{line}.")
    return " ".join(article), " ".join(highlights)


@registry.register_problem("summarize_cnn_dailymail32k")
class SummarizeCnnDailymail32k(ListedCorpora):
    """T2T's problem of this name: 287,113 training, 13,368 dev and 11,490 test articles.

    Articles without text or highlights are left out. T2T reads the stories in the order of the
    list of addresses.
    """

    metrics = "rouge_1", "rouge_2", "rouge_l"
    can_split_sources = False  # a summary is of the whole article

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """T2T's numbers of files."""
        shards = {DatasetSplit.TRAIN: 100, DatasetSplit.EVAL: 10, DatasetSplit.TEST: 10}
        return [{"split": split, "shards": count} for split, count in shards.items()]

    def corpora(self, dataset_split: str) -> tuple[Corpus, ...]:
        """Returns the stories of a split."""
        return (StoryCorpus("cnn_dailymail", STORIES, URLS[dataset_split]),)

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields each article with its highlights, as one text."""
        for sample in self.samples_for_vocab(data_dir, tmp_dir):
            yield " ".join(sample.values())
