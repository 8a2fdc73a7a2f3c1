"""Traps that stop a command, so that each has a repository of its own."""

import os
from dataclasses import dataclass

from tests.security.ground import Builder, Ground, fifo, linked, removed, written
from tests.security.lurking import jobs, profiles, scripts


@dataclass(frozen=True)
class Trap:
    """A trap, and the commands that could trigger it."""

    name: str
    build: Builder
    commands: tuple[str, ...]


RENDERING = ("render a", "render --all --write --force", "check", "submit a --dry-run --via local")
PROJECT = (*RENDERING, "explain a", "lint hand.sbatch", "init", "sites list")
PROFILE = (*RENDERING, "explain a", "sites list", "sites show generic", "init")
SENDING = ("submit a --dry-run --via local",)
LINTING = ("lint bomb.sbatch", "lint --fix bomb.sbatch", "lint --diff bomb.sbatch")
LOGIN = ("submit a", "submit a --ssh-client openssh", "doctor a --ssh-client openssh")


def project(*steps: Builder) -> Builder:
    """An ordinary project with some traps."""

    def build(ground: Ground) -> None:
        for step in (jobs, scripts, *steps):
            step(ground)

    return build


def settings(text: str) -> Builder:
    """A project with further lines in slurmgen.toml."""
    return project(written("slurmgen.toml", f"{text}\n[job.a]\nscript = 'train.py'\n"))


def profile(text: str) -> Builder:
    """A project whose profile replaces a bundled one."""
    return project(written("site_profiles/generic.toml", f"name = 'generic'\n{text}\n"))


def template(text: str) -> Builder:
    """A project with a template; `%s` stands for the name and arguments of a function of `os`."""

    def build(ground: Ground) -> None:
        attack = f"popen({ground.payload('template')!r}).read()"
        ground.write("templates/directives.j2", text.replace("%s", attack))

    return project(build)


def script(text: str) -> Builder:
    """A project with a batch script to lint."""
    return project(written("bomb.sbatch", f"#!/bin/bash\n{text}\n"))


def deep_folders(ground: Ground) -> None:
    """Deeper than a path may be long, and than a recursive function gets."""
    here = os.open(ground.project, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT, dir_fd=here))
    os.close(here)


ESCAPES = {
    "cycler": "{{ cycler.__init__.__globals__.os.%s }}",
    "joiner": "{{ joiner.__init__.__globals__.os.%s }}",
    "namespace": "{{ namespace.__init__.__globals__.os.%s }}",
    "lipsum": "{{ lipsum.__globals__.os.%s }}",
    "self": "{{ self.__init__.__globals__.sys.modules.os.%s }}",
    "a subscript": "{{ lipsum['__globals__'].os.%s }}",
    "the filter attr": "{{ (lipsum|attr('__glob' ~ 'als__')).os.%s }}",
    "the filter map": "{{ ([lipsum]|map(attribute='__globals__')|first).os.%s }}",
    "a value of the plan": "{{ plan.launcher.command.__globals__.__builtins__.__import__('os').%s }}",
    "the classes": "{% for c in plan.__class__.__mro__[-1].__subclasses__() if c.__name__ == '_wrap_close' %}"
    "{{ c.__init__.__globals__.%s }}{% endfor %}",
    "an error": "{{ ({}|attr('x')).__init__.__globals__.sys.modules.os.%s }}",
    "format": "{{ '{0.__init__.__globals__[os].environ[MY_SECRET]}'.format(cycler) }}",
    "format_map": "{{ '{a.__init__.__globals__[os].environ[MY_SECRET]}'.format_map({'a': cycler}) }}",
}
"By what the way out begins with."

ENDLESS = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops of constants": "{% for a in [0] * 99999 %}{% for b in [0] * 99999 %}{% endfor %}{% endfor %}",
    "a power": "{{ 9 ** (9 ** 9) }}",
    "a text": "{{ 'x' * 10 ** 9 }}",
    "a list": "{% set a = [0] * 10 ** 8 %}",
    "a width": "{{ '%999999999d' % 1 }}",
    "a filter": "{{ 'x'|center(10 ** 9) }}",
    "lipsum": "{{ lipsum(n=10 ** 6) }}",
    "a macro": "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    "its output": "{% for a in range(99999) %}{{ 'x' * 999999 }}{% endfor %}",
    "itself": "{% include 'directives.j2' %}",
    "nesting": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
}
"By what takes the time or the memory."

TEMPLATES = (
    *(
        Trap(f"template leaves by {by}", template(text), ("render a", "check"))
        for by, text in ESCAPES.items()
    ),
    *(Trap(f"template endless by {by}", template(text), ("render a",)) for by, text in ENDLESS.items()),
    Trap("template that leaves", template(ESCAPES["lipsum"]), RENDERING),
    Trap("template that is endless", template(ENDLESS["loops"]), RENDERING),
    Trap(
        "template is a link to the environment",
        project(linked("templates/directives.j2", "/proc/self/environ")),
        RENDERING,
    ),
    Trap(
        "template is a link outside",
        project(linked("templates/directives.j2", "{outside}/secret.toml")),
        RENDERING,
    ),
    Trap(
        "template includes through a link",
        project(
            linked("templates/more", "{outside}"),
            written("templates/step.j2", "{% include 'more/secret.toml' %}"),
        ),
        RENDERING,
    ),
    Trap("template is a FIFO", project(fifo("templates/directives.j2")), RENDERING),
    Trap("template folder is a link", project(linked("templates", "{outside}")), RENDERING),
    Trap("template_dir is outside", settings('template_dir = "../outside"'), RENDERING),
    Trap("template_dir is absolute", settings('template_dir = "/proc/self"'), RENDERING),
)

INIT = ("init --site lab", "init --site lab --training")
FOLDERS = (
    Trap("slurmgen.toml is missing", project(profiles, removed("slurmgen.toml")), INIT),
    *(
        Trap(
            f"training folder is a link to {target}",
            project(profiles, removed("slurmgen.toml"), linked("training", target)),
            INIT,
        )
        for target in ("{outside}", "{outside}/made-by-init")
    ),
    Trap("script_dir is outside", settings('script_dir = "../outside"'), RENDERING),
    Trap("script_dir is absolute", settings('script_dir = "/etc"'), RENDERING),
    Trap("script_dir is in .git", settings('script_dir = ".git/hooks"'), RENDERING),
    Trap(
        "script_dir controls the terminal",
        settings(r'script_dir = "a\u001b]0;x\u0007\n::error::x"'),
        (*RENDERING, "check --format github"),
    ),
    Trap(
        "log folder is a command", settings('[defaults]\nlog_dir = "logs/$(touch ../outside/ran)"'), RENDERING
    ),
    Trap("script is a link", project(linked("slurm/a.generic.sbatch", "{outside}/made")), RENDERING),
    Trap("script is a FIFO", project(fifo("slurm/a.generic.sbatch")), RENDERING),
    Trap("script folder is a link", project(linked("slurm", "{outside}")), RENDERING),
    Trap(
        "training script is a link",
        project(linked("train.py", "{outside}/secret.toml")),
        (*SENDING, "lint hand.sbatch"),
    ),
    Trap("folders are deep", project(deep_folders), (*SENDING, "check")),
)

SETTINGS = (
    *(
        Trap(f"slurmgen.toml is a link to {target}", project(linked("slurmgen.toml", target)), PROJECT)
        for target in ("/dev/zero", "/proc/self/environ", "{outside}/made-by-init", "slurmgen.toml")
    ),
    Trap("slurmgen.toml is a FIFO", project(fifo("slurmgen.toml")), PROJECT),
    Trap("slurmgen.toml is large", settings("#" * 10**8), PROJECT),
    Trap("slurmgen.toml has a long list", settings("a = [\n" + "1,\n" * 50_000 + "]"), PROJECT),
    Trap("slurmgen.toml has deep lists", settings(f"a = {'[' * 50_000}"), PROJECT),
    Trap("slurmgen.toml has deep keys", settings(f"{'.'.join('a' * 50_000)} = 1"), PROJECT),
    Trap("slurmgen.toml has deep tables", settings("\n".join(f"[{'a.' * n}b]" for n in range(900))), PROJECT),
    Trap("slurmgen.toml has a long number", settings(f"a = {'9' * 5000}"), PROJECT),
    Trap("slurmgen.toml controls the terminal", settings(r'"a\n::error::x\u001b]0;x\u0007" = 1'), PROJECT),
)

PROFILES = (
    *(
        Trap(f"profile is a link to {target}", project(linked("site_profiles/generic.toml", target)), PROFILE)
        for target in ("/dev/zero", "/proc/self/environ")
    ),
    Trap("profile is a FIFO", project(fifo("site_profiles/generic.toml")), PROFILE),
    Trap("profile extends a file outside", profile('extends = "../../outside/secret"'), PROFILE),
    Trap("profile extends itself", profile('extends = "./generic"'), PROFILE),
    Trap("login host is an option", profile('login.host = "-oProxyCommand=touch ../outside/ran"'), LOGIN),
    Trap("sbatch option runs a command", profile('sbatch.comment = "$(touch ../outside/ran)"'), PROFILE),
    Trap("image is an option", profile('container.image = "--writable"'), PROFILE),
)

IGNORE_FILES = (
    Trap("ignore file is a FIFO", project(fifo(".slurmgenignore")), SENDING),
    Trap("ignore file is a link to /dev/zero", project(linked(".gitignore", "/dev/zero")), SENDING),
    Trap("ignore file is a link outside", project(linked(".gitignore", "{outside}/secret.toml")), SENDING),
    Trap(
        "ignore pattern takes long",
        project(written(".gitignore", "*a*a*a*a*a*ab\n"), written("a" * 250, "")),
        SENDING,
    ),
    Trap("ignore patterns are not valid", project(written(".gitignore", "!\n\\\n[\n")), SENDING),
    Trap("ignore file is long", project(written(".gitignore", "**/a*/**/*b\n" * 50_000)), SENDING),
)

CALL = 'bash -c "$c%d"; '
SCRIPTS = (
    Trap(
        "script runs its variables",
        script(
            "".join(f"export c{n}='{CALL % (n + 1) * 45}'\n" for n in range(6)) + CALL % 0,
        ),
        LINTING,
    ),
    Trap("script has long values", script(f'a={"x" * 4000}\necho "{"$a" * 5000}"'), LINTING),
    Trap("script has long arrays", script(f"a=({'x ' * 4096})\n" + 'echo "${a[@]}"\n' * 4000), LINTING),
    Trap("script has nested launchers", script("srun " * 3000), LINTING),
    Trap("script has nested commands", script("$(" * 3000 + ")" * 3000), LINTING),
    *(
        Trap(f"script to lint is a link to {target}", project(linked("bomb.sbatch", target)), LINTING)
        for target in ("/proc/self/environ", "{outside}/secret.toml")
    ),
    Trap(
        "script to lint is behind a link",
        project(linked("folder", "{outside}")),
        ("lint folder/secret.toml", "lint --diff folder/secret.toml"),
    ),
    Trap("script to lint is a link to /dev/zero", project(linked("bomb.sbatch", "/dev/zero")), LINTING),
    Trap("script to lint is a FIFO", project(fifo("bomb.sbatch")), LINTING),
    Trap(
        "training script is nested",
        project(
            written("bomb.sbatch", "#!/bin/bash\nsrun python train.py\n"),
            written("train.py", f"x = {'-' * 90_000}1\n"),
        ),
        LINTING,
    ),
)

STOPPING = (*TEMPLATES, *FOLDERS, *SETTINGS, *PROFILES, *IGNORE_FILES, *SCRIPTS)
