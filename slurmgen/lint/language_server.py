"""A language server: findings, fixes and rule pages in an editor.

It reads only documents that contain `#SBATCH`, so that other shell scripts stay without findings.
https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/
"""

from importlib.metadata import version
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from slurmgen.errors import SlurmgenError
from slurmgen.files import MAX_TEXT
from slurmgen.lint.engine import fix, lint_text
from slurmgen.lint.finding import Report
from slurmgen.lint.reader.source import Source, Span
from slurmgen.lint.rule_pages import explain
from slurmgen.lint.settings import lint_settings

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
_FIX_ALL = "source.fixAll.slurmgen"


class Document:
    """A batch script in the editor, and its findings."""

    def __init__(self, document: TextDocument, site: str | None) -> None:
        self.codec, self.text = document.position_codec, document.source
        self.source, self.lines = Source(self.text), self.text.split("\n")
        path = to_fs_path(document.uri) if document.uri.startswith("file:") else None
        self.path = Path(path) if path else None
        self.codes, self.site = lint_settings(self.path.parent if self.path else Path.cwd(), site)
        is_batch = "#SBATCH" in self.text and len(self.text) <= MAX_TEXT
        self.reports = lint_text(self.text, self.site, self.path, self.codes) if is_batch else ()

    def range(self, span: Span) -> types.Range:
        """The place of a span, in the units that the editor counts in."""
        return types.Range(self._position(span.start), self._position(span.end))

    def _position(self, offset: int) -> types.Position:
        line, column = self.source.position(offset)
        return self.codec.position_to_client_units(self.lines, types.Position(line - 1, column - 1))

    def diagnostic(self, report: Report) -> types.Diagnostic:
        """A finding as the editor shows it."""
        return types.Diagnostic(
            range=self.range(report.finding.span),
            message=report.sentence,
            severity=_SEVERITIES[report.rule.severity],
            code=report.rule.code,
            source="slurmgen",
        )

    def fix(self, uri: str, report: Report) -> types.CodeAction:
        """The fix of a finding, which the user has chosen and may therefore be unsafe."""
        edits = [types.TextEdit(self.range(edit.span), edit.text) for edit in report.finding.edits]
        return types.CodeAction(
            title=f"{report.rule.code}: {report.finding.advice or report.finding.message}",
            kind=types.CodeActionKind.QuickFix,
            is_preferred=report.finding.safe,
            diagnostics=[self.diagnostic(report)],
            edit=types.WorkspaceEdit(changes={uri: list(edits)}),
        )

    def fix_all(self, uri: str) -> types.CodeAction:
        """All safe fixes, as `slurmgen lint --fix` applies them."""
        text = fix(self.text, self.site, self.path, self.codes).text
        edit = types.TextEdit(self.range(Span(0, len(self.text))), text)
        return types.CodeAction(
            title="slurmgen: apply all safe fixes",
            kind=_FIX_ALL,
            edit=types.WorkspaceEdit(changes={uri: [edit]}),
        )


class LintServer(LanguageServer):
    """A language server with the rules of a site, if there is one."""

    def __init__(self, site: str | None) -> None:
        super().__init__("slurmgen", version("slurmgen-torch"))
        self.site = site

    def document(self, uri: str) -> Document | None:
        """The document; None if the site or slurmgen.toml is not valid, which the editor then shows."""
        try:
            return Document(self.workspace.get_text_document(uri), self.site)
        except SlurmgenError as error:
            message = types.ShowMessageParams(types.MessageType.Error, f"slurmgen: {error}")
            self.window_show_message(message)
            return None


def make_server(site: str | None) -> LintServer:
    """The server, with its features."""
    server = LintServer(site)
    for event in (
        types.TEXT_DOCUMENT_DID_OPEN,
        types.TEXT_DOCUMENT_DID_CHANGE,
        types.TEXT_DOCUMENT_DID_SAVE,
    ):
        server.feature(event)(_publish)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(_clear)
    kinds = types.CodeActionOptions([types.CodeActionKind.QuickFix, _FIX_ALL])
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, kinds)(_actions)
    server.feature(types.TEXT_DOCUMENT_HOVER)(_page)
    return server


def _publish(
    server: LintServer,
    params: types.DidOpenTextDocumentParams
    | types.DidChangeTextDocumentParams
    | types.DidSaveTextDocumentParams,
) -> None:
    uri = params.text_document.uri
    document = server.document(uri)
    found = [document.diagnostic(report) for report in document.reports] if document else []
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))


def _clear(server: LintServer, params: types.DidCloseTextDocumentParams) -> None:
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))


def _actions(server: LintServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The fixes at a place, and all safe fixes of the document."""
    uri = params.text_document.uri
    document = server.document(uri)
    fixable = [report for report in document.reports if report.finding.edits] if document else []
    if not document or not fixable:
        return []
    here = [report for report in fixable if _overlaps(document.range(report.finding.span), params.range)]
    safe = any(report.finding.safe for report in fixable)
    return [*(document.fix(uri, report) for report in here), *([document.fix_all(uri)] if safe else [])]


def _page(server: LintServer, params: types.HoverParams) -> types.Hover | None:
    """The pages of the rules whose findings are at a place."""
    document = server.document(params.text_document.uri)
    point = types.Range(params.position, params.position)
    pages = {
        report.rule.code: explain(report.rule)
        for report in (document.reports if document else ())
        if document and _overlaps(document.range(report.finding.span), point)
    }
    content = types.MarkupContent(types.MarkupKind.Markdown, "\n".join(pages.values()))
    return types.Hover(content) if pages else None


def _overlaps(a: types.Range, b: types.Range) -> bool:
    return a.start <= b.end and b.start <= a.end
