"""The language server, over its real protocol."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

TEXT = "#!/bin/bash\n#SBATCH --comment=\U0001f600 --time=24:00\nsrun python a.py\n"
FAULT = types.Range(types.Position(1, 28), types.Position(1, 33))
"The place of 24:00, in UTF-16 units."
SECONDS = 60


class Editor:
    """An editor with one document."""

    def __init__(self, client: LanguageClient, uri: str) -> None:
        self.client, self.uri = client, uri
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.messages: list[str] = []
        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            lambda params: self.published.put_nowait(params)
        )
        client.feature(types.WINDOW_SHOW_MESSAGE)(lambda params: self.messages.append(params.message))

    async def open(self, text: str) -> list[types.Diagnostic]:
        """The findings after the document was opened."""
        item = types.TextDocumentItem(self.uri, "shellscript", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return await self.findings()

    async def replace(self, text: str) -> list[types.Diagnostic]:
        """The findings after the whole text was replaced."""
        name = types.VersionedTextDocumentIdentifier(2, self.uri)
        changes = [types.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(name, changes))
        return await self.findings()

    async def findings(self) -> list[types.Diagnostic]:
        return list((await asyncio.wait_for(self.published.get(), SECONDS)).diagnostics)

    async def actions(self, where: types.Range) -> list[types.CodeAction]:
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(self.uri), where, types.CodeActionContext([])
        )
        found = await self.client.text_document_code_action_async(params)
        return [action for action in found or () if isinstance(action, types.CodeAction)]

    async def page(self, position: types.Position) -> str | None:
        params = types.HoverParams(types.TextDocumentIdentifier(self.uri), position)
        hover = await self.client.text_document_hover_async(params)
        return hover.contents.value if hover and isinstance(hover.contents, types.MarkupContent) else None


def edits_of(action: types.CodeAction) -> list[types.TextEdit]:
    assert action.edit is not None
    return [edit for edits in (action.edit.changes or {}).values() for edit in edits]


def edit(folder: Path, steps: Callable[[Editor], Awaitable[None]], *options: str) -> None:
    """Run the steps of an editor on folder/job.sbatch."""

    async def run() -> None:
        client = LanguageClient("test", "1")
        editor = Editor(client, (folder / "job.sbatch").as_uri())
        await client.start_io(sys.executable, "-m", "slurmgen", "lsp", *options)
        try:
            await client.initialize_async(types.InitializeParams(types.ClientCapabilities()))
            client.initialized(types.InitializedParams())
            await steps(editor)
        finally:
            await client.shutdown_async(None)
            client.exit(None)
            await client.stop()

    with ThreadPoolExecutor(1) as pool:  # the browser of other tests has the event loop of this thread
        pool.submit(asyncio.run, run()).result()


def test_findings_follow_the_text(tmp_path: Path) -> None:
    async def steps(editor: Editor) -> None:
        (found,) = await editor.open(TEXT)
        assert (found.code, found.severity, found.range) == ("SG110", types.DiagnosticSeverity.Error, FAULT)
        assert found.message.startswith("24:00 is 24 minutes, not hours; write ")
        assert await editor.replace(TEXT.replace("24:00", "24:00:00")) == []

    edit(tmp_path, steps)


def test_a_fix_and_the_page_of_the_rule_are_offered_at_the_finding_only(tmp_path: Path) -> None:
    async def steps(editor: Editor) -> None:
        await editor.open(TEXT)
        (fix,) = await editor.actions(FAULT)
        (inserted,) = edits_of(fix)
        assert (inserted.range.start, inserted.new_text, fix.is_preferred) == (FAULT.end, ":00", False)
        assert "# SG110 time-form" in (await editor.page(FAULT.start) or "")
        start = types.Position(0, 0)
        assert await editor.page(start) is None
        assert await editor.actions(types.Range(start, start)) == []

    edit(tmp_path, steps)


def test_all_safe_fixes_are_offered_as_one_action(tmp_path: Path) -> None:
    text = TEXT.replace("#SBATCH", "#SBATCH --partiton=a\n#SBATCH")

    async def steps(editor: Editor) -> None:
        await editor.open(text)
        line = types.Range(types.Position(1, 0), types.Position(1, 99))
        fix, everything = await editor.actions(line)
        assert fix.is_preferred
        assert everything.kind == "source.fixAll.slurmgen"
        (whole,) = edits_of(everything)
        assert whole.new_text == text.replace("--partiton", "--partition")

    edit(tmp_path, steps)


def test_a_shell_script_without_directives_has_no_findings(tmp_path: Path) -> None:
    async def steps(editor: Editor) -> None:
        assert await editor.open("conda activate x\nsrun -N2 torchrun a.py\n") == []

    edit(tmp_path, steps)


def test_slurmgen_toml_selects_the_rules(tmp_path: Path) -> None:
    (tmp_path / "slurmgen.toml").write_text('[lint]\nignore = ["SG110"]\n')

    async def steps(editor: Editor) -> None:
        assert await editor.open(TEXT) == []

    edit(tmp_path, steps)


def test_an_invalid_slurmgen_toml_is_reported_in_the_editor(tmp_path: Path) -> None:
    (tmp_path / "slurmgen.toml").write_text("nonsense = 1\n")

    async def steps(editor: Editor) -> None:
        assert await editor.open(TEXT) == []
        assert "nonsense" in editor.messages[0]

    edit(tmp_path, steps)


def test_the_rules_of_a_site_apply(tmp_path: Path) -> None:
    async def steps(editor: Editor) -> None:
        found = await editor.open("#!/bin/bash\n#SBATCH --gpus=1 --partition=small\nsrun python a.py\n")
        assert "SG901" in {finding.code for finding in found}

    edit(tmp_path, steps, "--site", "olivia")


@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "file:///etc/shadow"])
def test_documents_without_a_readable_file_are_linted_from_their_text(uri: str, tmp_path: Path) -> None:
    async def steps(editor: Editor) -> None:
        editor.uri = uri
        assert [finding.code for finding in await editor.open(TEXT)] == ["SG110"]

    edit(tmp_path, steps)
