// A change is shown as a diff before it is made.
import { EditorState, EditorView, unifiedMergeView } from "./vendor/codemirror.min.js";
import { common } from "./linter_editor.js";

const element = (id) => document.getElementById(id);

/**
 * Show what `changes` do to a text, and let the user take single ones back.
 * Resolves to the changes that are left, as a ChangeSet; to null if the user cancels.
 */
export function review(state, title, note, changes) {
  let kept = state.changes(changes);
  const view = diff(state, kept, (change) => { kept = kept.compose(change); });
  element("review-title").textContent = title;
  element("review-note").textContent = note;
  element("review").returnValue = "cancel";
  element("review").showModal();
  view.focus();
  return new Promise((resolve) => {
    element("review").addEventListener("close", () => {
      view.destroy();
      resolve(element("review").returnValue === "apply" ? kept : null);
    }, { once: true });
  });
}

/** A diff in the dialog; `changed` gets each change that the user makes to it. */
function diff(state, changes, changed) {
  const several = [...lines(state, changes)].length > 1;
  const extensions = [
    ...common,
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ "aria-label": "The script after the change", tabindex: "0" }),
    EditorView.updateListener.of((update) => { if (update.docChanged) changed(update.changes); }),
    unifiedMergeView({
      original: state.doc,
      mergeControls: several && control,
      collapseUnchanged: { margin: 2, minSize: 4 },
    }),
  ];
  return new EditorView({
    state: EditorState.create({ doc: changes.apply(state.doc), extensions }),
    parent: element("diff"),
  });
}

/** The lines where changes begin. */
function lines(state, changes) {
  const found = new Set();
  changes.iterChangedRanges((from) => found.add(state.doc.lineAt(from).number));
  return found;
}

/** The button that takes one change back; to accept it, the user applies what is left. */
function control(type, action) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "leave-out";
  button.hidden = type === "accept";
  button.textContent = "Leave out";
  button.addEventListener("mousedown", (event) => event.preventDefault());
  button.addEventListener("click", action);
  return button;
}
