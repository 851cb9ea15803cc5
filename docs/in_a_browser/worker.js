// Python of the page draw_your_cell.html. It reads {id, job, text, style}, and answers {id, part, data}, in JSON.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const PARTS = ["picture", "fading", "checks"];
let latest = 0;

const started = (async () => {
  const python = await loadPyodide();
  await python.loadPackage(["numpy", "pydoc-data"], { messageCallback: () => {} });
  const files = ["graphnet.zip", "cell.py", "viz-global.js"];
  const [packages, code, graphviz] = await Promise.all(files.map(async (file) => {
    const response = await fetch(file);
    if (!response.ok) throw new Error(`${file} was not found beside this page`);
    return response;
  }));
  const folder = python.runPython("import sysconfig; sysconfig.get_path('purelib')");
  python.unpackArchive(await packages.arrayBuffer(), "zip", { extractDir: folder });
  python.FS.writeFile("/home/pyodide/cell.py", await code.text());
  const { load_graphviz } = python.pyimport("viz.drawing.in_browser");
  await load_graphviz(await graphviz.text());
  return python.pyimport("cell");
})();

started.then(() => postMessage({ part: "ready" }), (error) => postMessage({ part: "failed", data: String(error) }));

// Lets messages that came meanwhile be read.
const pause = () => new Promise((resolve) => setTimeout(resolve));

// The last line of a Python error, without its class.
const problem = (error) => {
  const text = String(error.message ?? error).trim();
  const found = text.match(/\n\S*Error: ([^]*)$/);
  return found ? found[1] : text;
};

onmessage = async ({ data: { id, job, text, style } }) => {
  latest = Math.max(latest, id);
  const cell = await started;
  const parts = job === "show" ? PARTS : [job];
  for (const part of parts) {
    await pause();
    if (id !== latest) return;
    try {
      const answer = (data) => postMessage({ id, part, data });
      if (part === "picture") answer(JSON.parse(cell.picture(text, style)));
      else if (part === "train") {
        const sample = cell.train(text, (row) => postMessage({ id, part: "row", data: JSON.parse(row) }));
        answer(JSON.parse(sample));
      } else if (part === "explorer") answer(cell.explorer(text));
      else answer(JSON.parse(cell[part](text)));
    } catch (error) {
      postMessage({ id, part: "problem", of: part, data: problem(error) });
      return;
    }
  }
};
