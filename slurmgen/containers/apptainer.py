"""apptainer: `apptainer exec` inside the step, once per task.

The host's variables reach the container unless its image sets them too; one named
APPTAINERENV_NAME wins over the image, and unlike `--env` its value may hold a comma.
https://apptainer.org/docs/user/main/environment_and_metadata.html
"""

ENV_PREFIX = "APPTAINERENV_"


def command(image: str, binds: tuple[str, ...]) -> tuple[str, ...]:
    """The shell words before the command that runs in the image.

    `image` and `binds`, each SOURCE[:TARGET[:OPTIONS]], are quoted shell words.
    """
    return ("apptainer", "exec", "--nv", *(f"--bind={bind}" for bind in binds), image)
