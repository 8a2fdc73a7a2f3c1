// The editor of the linter: CodeMirror with line numbers, search and history.
import {
  EditorState, EditorView, HighlightStyle, StreamLanguage, bracketMatching, defaultKeymap, drawSelection,
  highlightActiveLine, highlightActiveLineGutter, highlightSelectionMatches, highlightSpecialChars, history,
  historyKeymap, keymap, lineNumbers, lintGutter, nextDiagnostic, placeholder, search, searchKeymap, shell,
  syntaxHighlighting, tags,
} from "./vendor/codemirror.min.js";

const colours = HighlightStyle.define([
  { tag: [tags.comment, tags.meta], color: "var(--muted)" },
  { tag: [tags.keyword, tags.standard(tags.variableName), tags.atom], color: "var(--accent)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: [tags.definition(tags.variableName), tags.attributeName, tags.number], color: "var(--warning)" },
]);

/** A character that would be invisible, such as \r or one that changes the direction of writing. */
function specialCharacter(code, description, mark) {
  const node = document.createElement("span");
  node.textContent = { 0: "\\0", 13: "\\r", 27: "\\e" }[code] ?? (code < 32 ? "•" : mark);
  node.title = description;
  node.ariaLabel = description;
  node.role = "img";
  node.className = "cm-specialChar";
  return node;
}

/** What the editor has in common with the view of a change. */
export const common = [
  // Only \n ends a line, so that the \r of a file from Windows stays in the text, and positions are right.
  EditorState.lineSeparator.of("\n"),
  EditorView.cspNonce.of(document.querySelector("meta[name=style-nonce]").content),
  lineNumbers(),
  highlightSpecialChars({ render: specialCharacter }),
  StreamLanguage.define(shell),
  syntaxHighlighting(colours),
];

/**
 * An editor in an element. `changed()` is called after each change of the text, `opened(file)` when a file is
 * dropped onto it.
 */
export function makeEditor(parent, text, { changed, opened }) {
  const state = EditorState.create({ doc: text, extensions: [...common, ...editing(changed, opened)] });
  return new EditorView({ state, parent });
}

function editing(changed, opened) {
  return [
    history(),
    drawSelection(),
    bracketMatching(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    highlightSelectionMatches(),
    search({ top: true }),
    lintGutter(),
    placeholder("#!/bin/bash\n#SBATCH --nodes=1 …"),
    keymap.of([{ key: "F8", run: nextDiagnostic }, ...defaultKeymap, ...historyKeymap, ...searchKeymap]),
    EditorView.contentAttributes.of({ "aria-label": "Batch script" }),
    EditorView.updateListener.of((update) => { if (update.docChanged) changed(); }),
    // Windows has \r\n in its clipboard, whatever the file has.
    EditorView.clipboardInputFilter.of((pasted) => pasted.replace(/\r\n?/g, "\n")),
    EditorView.domEventHandlers({ drop: (event) => droppedFile(event, opened) }),
  ];
}

/** Open a file that is dropped, instead of inserting it; dropped text is the editor's own business. */
export function droppedFile(event, opened) {
  const [file] = event.dataTransfer?.files ?? [];
  if (!file) return false;
  event.preventDefault();
  opened(file);
  return true;
}
