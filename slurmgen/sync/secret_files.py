"""Files whose names suggest secrets. They are sent only if the user names them."""

from functools import cache
from pathlib import Path

from slurmgen.files import read_bytes
from slurmgen.sync.ignore_patterns import Patterns

SECRETS = {
    "environment variables": """
        .env .env[._-]* *.env *.env[._-]* .envrc .envrc[._-]* .flaskenv .Renviron *.tfvars
    """,
    "SSH keys": """
        .ssh/ .ssh[._-]*/ id_rsa id_rsa[._-]* id_dsa id_dsa[._-]* id_ecdsa id_ecdsa[._-]* id_ed25519
        id_ed25519[._-]* *[_-]rsa *[_-]ecdsa *[_-]ed25519
    """,
    "a private key": "*.p12 *.pfx *.ppk *.jks *.keystore *.keytab *.ovpn .gnupg/",
    "possibly a private key": "*.pem *.key",
    "passwords": """
        .netrc .netrc[._-]* _netrc password password.txt passwords.txt .password .passwd .vault_pass*
        .pgpass .my.cnf .mylogin.cnf .htpasswd .smbcredentials .password-store/ *.kdbx
    """,
    "a login to a service": """
        .git-credentials **/.config/git/credentials **/.config/gh/hosts.yml .vault-token .databrickscfg
        .condarc **/.jupyter/*.json auth.json *[_-]auth.json .cdsapirc .ngc/
        krb5cc_* .Xauthority
    """,
    "a login to package indexes": ".pypirc .npmrc **/.cargo/credentials **/.cargo/credentials.toml",
    "a login to container registries": """
        **/.docker/config.json .dockercfg .dockerconfigjson **/containers/auth.json
        **/.apptainer/*.json **/.singularity/*.json
    """,
    "a token for data and models": """
        .token *.token token.txt token.json *[_-]token *[_-]token.txt *[_-]token.json access_token*
        api[_-]key api[_-]key.txt api[_-]keys.txt *api[_-]key *api[_-]key.txt .*api[_-]key* wandb[_-]key*
        .neptune/ kaggle.json .kaggle/ **/wandb/settings .comet.config .modal.toml
        **/.huggingface/token **/huggingface/token **/huggingface/stored_tokens .hf_token
    """,
    "credentials of a cloud": """
        .aws/ .aws[._-]*/ credentials .credentials *[._-]credentials *credentials.json *credentials.txt
        *credentials.csv *credentials.toml *credentials.ini *credentials.y*ml .azure/ .oci/ .kube/
        kubeconfig **/.config/gcloud/ .boto .s3cfg rclone.conf .rclone.conf
        application_default_credentials.json service[_-]account*.json client_secret*.json
        *.tfstate *.tfstate.*
    """,
    "secrets by its name": """
        .secret .secret[._-]* .secrets .secrets/ .secrets[._-]* secrets secret.txt secrets.txt secrets.ini
        secret.toml secret.json secret.y*ml secrets.toml secrets.json secrets.y*ml *[_-]secret *[_-]secrets
    """,
    "a history of commands": """
        .*_history .*_history[.-]* fish_history .histfile .zhistory .Rhistory .lesshst .viminfo
    """,
}
"Patterns as in .gitignore, in any case, by the kind of secret; those that end in a slash match folders."

_PUBLIC = """
    *.pub *[._-]example *[._-]sample *[._-]template *[._-]dist example*.env sample*.env template*.env
    *[._-]example.env
"""
_TABLE: tuple[tuple[str, str | None], ...] = (
    *((pattern, what) for what, names in SECRETS.items() for pattern in names.split()),
    *((pattern, None) for pattern in _PUBLIC.split()),
)
"Each pattern with the kind of secret; the last that matches decides."
_MAYBE_PUBLIC = "possibly a private key"
_BEGIN, _PRIVATE = b"-----BEGIN ", b"PRIVATE KEY"


def secret(state: int, path: str, *, is_folder: bool) -> str | None:
    """The kind of secret that a file or folder holds, if any.

    Args:
        state: of `patterns`, after its lower-case path relative to the project.
        path: the path to it.
        is_folder: whether it is a folder.
    """
    line = patterns().match(state, is_folder=is_folder)
    if line is None:
        return None
    pattern, what = _TABLE[line]
    if is_folder != pattern.endswith("/") or (what == _MAYBE_PUBLIC and _is_public(path)):
        return None
    return what


@cache
def patterns() -> Patterns:
    """The names of SECRETS and of their exceptions."""
    return Patterns([pattern.lower().encode() for pattern, _ in _TABLE])


def _is_public(path: str) -> bool:
    """Whether a file holds only certificates and public keys."""
    try:
        content = read_bytes(Path(path))
    except OSError:
        return False
    return _BEGIN in content and _PRIVATE not in content
