// Puts the libraries into slurmgen/web/static/vendor, each with its licence. Run by `make web-assets`.
import { build } from "esbuild";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const target = join(import.meta.dirname, "../slurmgen/web/static/vendor");
const modules = join(import.meta.dirname, "node_modules");
const copies = {
  "htmx.min.js": "htmx.org/dist/htmx.min.js",
  "htmx-sse.min.js": "htmx-ext-sse/dist/sse.min.js",
  "uplot.min.js": "uplot/dist/uPlot.esm.js",
  "uplot.min.css": "uplot/dist/uPlot.min.css",
};

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
for (const [name, source] of Object.entries(copies)) {
  if (name === "uplot.min.js") continue;
  copyFileSync(join(modules, source), join(target, name));
}
const options = { bundle: true, format: "esm", minify: true, legalComments: "none", metafile: true, target: "es2022" };
const results = await Promise.all([
  build({ ...options, entryPoints: [join(import.meta.dirname, "editor.js")], outfile: join(target, "codemirror.min.js") }),
  build({ ...options, entryPoints: [join(modules, copies["uplot.min.js"])], outfile: join(target, "uplot.min.js") }),
]);

const nameOf = (path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1];
const inputs = results.flatMap((result) => Object.keys(result.metafile.inputs));
const packages = new Set([...inputs.map(nameOf), ...Object.values(copies).map((path) => nameOf(`node_modules/${path}`))]);
const licences = [...packages].filter(Boolean).sort().map(licence);
writeFileSync(join(target, "LICENSES.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));

function licence(name) {
  const { version, license = "see below" } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));
  const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"].map((each) => join(modules, name, each)).find(existsSync);
  const text = file ? readFileSync(file, "utf8").trim() : `No licence text in the package; it states ${license}.`;
  return `${name} ${version} (${license})\n\n${text}\n`;
}
