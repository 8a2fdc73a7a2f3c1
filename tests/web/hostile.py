"""Random requests to the page: its real addresses and fields, with valid and hostile values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from random import Random
from urllib.parse import quote, quote_plus, unquote

MARK = "zq"
"Begins each tag and attribute of the markup below: a reply has none of them."
SUM = "94011"
"What `31337*3` would be."
# fmt: off
VALUES = (
    "", " ", "0", "-1", "1e9", "1", "4", "9" * 5000, "NaN", "1:00:00", "99-99:99:99", "[]", "{}",
    "true", "../../../../etc/passwd", "/etc/passwd", "..%2f..%2fetc", "~/.ssh/id_ed25519", "-rf",
    "file:///etc/passwd", "\0", "a\0b", "\r\nzq: 1", "\x1b[31m", "\N{RIGHT-TO-LEFT OVERRIDE}",
    "\ud800", "\N{SNOWMAN}" * 50, "\N{LATIN SMALL LETTER DOTLESS I}", "\N{LATIN SMALL LIGATURE FFI}",
    f"<{MARK}>", f'"><{MARK} onload=1>', f"' {MARK}=1 x='", f'" {MARK}=1 x="', f"</script><{MARK}>",
    f"</textarea></title><{MARK}>", f"--><{MARK}>", f"<!--<{MARK}>", f"<svg/{MARK}=1>", "javascript:alert(1)",
    "{{31337*3}}", "{% for a in 1 %}", "${31337*3}", "#{31337*3}", "{0.__class__}", "%s%n%d", "{}{0}{a}", "%",
    "$(touch zq)", "`touch zq`", "; touch zq", "| sh", "a\nb", "#SBATCH --wrap=x", "'", '"', "\\", "--help",
    "daic", "lumi-g", "SG101", "ddp", "gpu", "alice", "python train.py", "train.py", "12:00:00", "16G",
    "a" * 5000, "#!/bin/bash\n#SBATCH --gpus=2\n#SBATCH --time=1\nsrun python train.py <zq>\n",
    "#!/bin/bash\n" + "((" * 300 + "$(" * 300,
)
METHODS = ("GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "ZQ")
PATHS = (
    "/", "//", "//evil.example/", "/\\evil", "/..%2f..%2fetc/passwd", "/static/../access.py", "/;", "/?",
    "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/%00", "/static/" + "a" * 5000, "/%ff",
)
HEADERS = (
    "accept", "content-type", "content-length", "range", "if-none-match", "if-modified-since", "te",
    "hx-request", "x-forwarded-for", "x-forwarded-host", "x-original-url", "x-http-method-override",
    "hx-current-url", "accept-language", "accept-encoding", "transfer-encoding", "expect", "last-event-id",
    "forwarded", "upgrade",
    "sec-fetch-site", "sec-fetch-mode", "origin", "host", "cookie", "authorization", "user-agent", "referer",
)
# fmt: on


@dataclass
class Names(HTMLParser):
    """The field names of the pages, with the values that they offer."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    _select: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if name := given.get("name"):
            self._select = name
        if tag in {"input", "select", "textarea", "option", "button"} and self._select:
            self.fields.setdefault(self._select, []).append(given.get("value") or "")


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def scope(self) -> dict[str, object]:
        """As uvicorn makes it."""
        path, _, query = self.target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": self.headers,
            "client": ("192.0.2.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }


@dataclass(frozen=True)
class Requests:
    """Makes requests, the same for the same seed."""

    random: Random
    addresses: Sequence[tuple[str, str]]
    "Methods and paths of routes, some with parameters: `/rules/{code}`."
    fields: dict[str, list[str]]
    own: dict[str, str]
    "Headers of a request that is let in."
    keys: Sequence[str] = ()
    "What names the jobs."
    parameters: dict[str, list[str]] = field(default_factory=dict)
    "The fields and the parameters of the addresses of jobs."

    @cached_property
    def _changing(self) -> list[tuple[str, str]]:
        """Addresses that take a form, which are few, and do most."""
        return [one for one in self.addresses if one[0] == "POST"]

    def next(self) -> Asked:
        method, path = self._address()
        fields = self.parameters if path.startswith("/jobs/") else self.fields
        query = f"?{self._form(fields)}" if self.random.random() < 0.4 else ""
        return Asked(method, (path + query).encode("ascii", "replace"), self._headers(), self._body(fields))

    def _value(self) -> str:
        value = self.random.choice(VALUES)
        return value + self.random.choice(VALUES) if self.random.random() < 0.1 else value

    def _address(self) -> tuple[str, str]:
        if self.random.random() < 0.15:
            return self.random.choice(METHODS), self.random.choice(PATHS)
        method, path = self.random.choice(self.random.choice([self.addresses, self._changing]))
        parts = path.split("/")
        path = "/".join(self._part(part) if "{" in part else part for part in parts)
        return (self.random.choice(METHODS) if self.random.random() < 0.1 else method), path

    def _part(self, name: str) -> str:
        is_job = name == "{key}" and self.keys and self.random.random() < 0.9
        value = self.random.choice(self.keys) if is_job else self._value()
        return quote(value, safe="", errors="replace")

    def _form(self, fields: dict[str, list[str]]) -> str:
        names = self.random.sample(list(fields), min(len(fields), self.random.randrange(12)))
        pairs = [(name, self._field(fields[name])) for name in names]
        if self.random.random() < 0.1:
            pairs.append((self._value(), self._value()))
        return "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in pairs)

    def _field(self, known: list[str]) -> str:
        return self.random.choice(known) if self.random.random() < 0.6 else self._value()

    def _body(self, fields: dict[str, list[str]]) -> bytes:
        kind = self.random.random()
        if kind < 0.85:
            return self._form(fields).encode()
        return self.random.randbytes(200) if kind < 0.95 else self._value().encode(errors="replace")

    def _headers(self) -> list[tuple[bytes, bytes]]:
        headers = dict(self.own)
        while self.random.random() < 0.3:
            headers[self.random.choice(HEADERS)] = self._value()
        return [(name.encode(), _header(value)) for name, value in headers.items()]


def _quoted(value: str) -> str:
    return quote_plus(value, errors="replace")


def _header(value: str) -> bytes:
    """h11 refuses control characters."""
    return "".join(c for c in value if c.isprintable()).encode("utf-8", "replace")
