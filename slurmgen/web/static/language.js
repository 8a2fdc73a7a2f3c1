// uPlot formats numbers in the language of the browser. Some browsers name none that Intl knows, such as "C", and uPlot
// would not load there. It is imported after this module, and then finds English.
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en" });
}
