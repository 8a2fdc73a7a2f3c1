// The parts of CodeMirror that the page uses, in one module.
export { EditorState, Compartment, StateEffect, StateField } from "@codemirror/state";
export {
  Decoration, EditorView, WidgetType, drawSelection, highlightActiveLine, highlightActiveLineGutter,
  highlightSpecialChars, keymap, lineNumbers, placeholder,
} from "@codemirror/view";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { HighlightStyle, StreamLanguage, bracketMatching, syntaxHighlighting } from "@codemirror/language";
export { tags } from "@lezer/highlight";
export { shell } from "@codemirror/legacy-modes/mode/shell";
export { toml } from "@codemirror/legacy-modes/mode/toml";
export { forEachDiagnostic, forceLinting, lintGutter, lintKeymap, linter, nextDiagnostic, setDiagnostics } from "@codemirror/lint";
export { MergeView, unifiedMergeView } from "@codemirror/merge";
export { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
