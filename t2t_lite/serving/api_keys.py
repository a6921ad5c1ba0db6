"""The keys by which a server knows its clients."""

import hashlib
import hmac

from starlette.exceptions import HTTPException

from t2t_lite.errors import UsageError
from t2t_lite.files import require_readable
from t2t_lite.text.text_files import iterate_lines


class ApiKeys:
    """Lets those through who have a key. Keys are never logged, nor part of a message.

    Args:
        keys: the keys; none: everybody is let through.
    """

    def __init__(self, keys: list[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def read(cls, path: str) -> "ApiKeys":
        """Reads a file with a key in each line; "": there is none.

        Raises:
            DataError: it is not UTF-8.
            UsageError: it has no key.
            UserError: there is no such file.
        """
        if not path:
            return cls([])
        require_readable(path, "--api_keys")
        if keys := [key for line in iterate_lines(path) if (key := line.strip())]:
            return cls(keys)
        raise UsageError(f"--api_keys={path}: the file has no key: write one into each line")

    def __bool__(self) -> bool:
        """Whether a key is needed."""
        return bool(self._digests)

    def check(self, key: object) -> None:
        """Refuses a request without one of the keys, in a time that tells nothing of them.

        Raises:
            HTTPException: 403.
        """
        if not self:
            return
        given = _digest(key if isinstance(key, str) else "")
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        if not any(matches):
            message = "the key is wrong" if key else "a key is needed"
            raise HTTPException(403, f'{message}: send your key as "api_key"')


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()
