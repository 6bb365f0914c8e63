// What is drawn: the numbers that the page carries, their axes, the controls, and a panel for each run. look.js draws it.
let MODEL = JSON.parse(document.getElementById("model").textContent);
const RUNS = MODEL.runs.map((_, run) => run);
const BINS = 100, CELLS = 80, MOST_POINTS = 5000, DECADES = 6;
// Of more vectors the curves of their components lie on one another.
const MOST_IN_CURVES = 2000;
// An image whose mean is below this share of its maximum is logarithmic at first.
const SMALL = 0.005;
// Less, equal, more: told apart by all kinds of colour vision.
const DIFFERENCES = [[0, "#0072b2"], [0.5, "#f7f7f7"], [1, "#b3400a"]];
const byId = (id) => document.getElementById(id);
const SHOWN = byId("shown");

// ---- What the page carries: numbers of a view, by run, step taken and column.

const decoded = new Map();

function numbers(view, run, index, column) {
  const text = view.runs[run].columns[column].values[index];
  if (text == null) return null;
  // One text is other numbers in a view of other digits or units.
  const {factor} = view.columns[column], key = `${view.itemBytes} ${factor} ${text}`;
  if (!decoded.has(key)) {
    if (decoded.size >= 32) decoded.delete(decoded.keys().next().value);
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    const values = view.itemBytes === 8 ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
    decoded.set(key, factor === 1 ? values : Float64Array.from(values, (value) => value * factor));
  }
  return decoded.get(key);
}

const extent = (view, run, index) => view.runs[run].extents[index] ?? null;
const kept = (view, run, index) => extent(view, run, index).map((length, axis) => Math.ceil(length / view.strides[axis]));
const has = (view, run, index, column = 0) => view.runs[run].columns[column].values[index] != null;
const product = (lengths) => lengths.reduce((all, length) => all * length, 1);

// Cells that are drawn: all, or those of the plane `place` across `axis`.
function slice(view, run, index, column, axis, place) {
  const values = numbers(view, run, index, column);
  if (values === null) return null;
  const shape = kept(view, run, index), axes = shape.map((_, each) => each);
  if (axis === null) return {values, shape, axes};
  const inner = product(shape.slice(axis + 1)), outer = product(shape.slice(0, axis));
  const at = Math.min(place, shape[axis] - 1), out = new values.constructor(inner * outer);
  for (let each = 0; each < outer; each++) {
    const begin = (each * shape[axis] + at) * inner;
    out.set(values.subarray(begin, begin + inner), each * inner);
  }
  return {values: out, shape: shape.filter((_, each) => each !== axis), axes: axes.filter((each) => each !== axis)};
}

const subtract = (a, b) => Float64Array.from(b, (value, i) => value - a[i]);
const same = (a, b) => a.length === b.length && a.every((length, axis) => length === b[axis]);

function statistics(values) {
  let low = Infinity, high = -Infinity, sum = 0, count = 0;
  for (const value of values) if (Number.isFinite(value)) {
    low = Math.min(low, value); high = Math.max(high, value); sum += value; count++;
  }
  return {low, high, mean: sum / count, count, other: values.length - count};
}

// ---- Axes: another variable may hold the coordinates along one.

const stem = (name) => name.slice(0, Math.max(0, name.lastIndexOf("_")));
const label = (column) => column.unit ? `${column.label} (${column.unit})` : column.label;

function timeOf(file, run, step) {
  const time = file.times[run][step] ?? null;
  return time === null ? null : time * file.timeFactor;
}

function isMonotonic(values) {
  const sign = Math.sign(values[1] - values[0]);
  for (let i = 1; i < values.length; i++) if (Math.sign(values[i] - values[i - 1]) !== sign || sign === 0) return false;
  return values.length > 1;
}

// Curves with one value for each cell along the axis, or one more: the edges of the cells.
function coordinatesOf(file, view, axis) {
  const run = RUNS.find((each) => has(view, each, 0));
  if (run === undefined || axis === undefined) return [];
  const length = extent(view, run, 0)[axis];
  return file.views.filter((each) => each !== view && each.kind === "line" && each.strides[0] === 1 && has(each, run, 0)
    && [length, length + 1].includes(extent(each, run, 0)[0]) && isMonotonic(numbers(each, run, 0, 0)));
}

// The one whose name begins alike, of several the one for this direction; or the only one with the edges of the cells.
function usualCoordinate(file, view, axis, direction) {
  const found = coordinatesOf(file, view, axis), run = RUNS.find((each) => has(view, each, 0));
  const alike = found.filter((each) => stem(each.name) && stem(each.name) === stem(view.name));
  const directed = alike.filter((each) => each.name.endsWith(direction));
  if (directed.length === 1) return directed[0].name;
  if (alike.length) return alike.length === 1 ? alike[0].name : "";
  const edges = found.filter((each) => extent(each, run, 0)[0] === extent(view, run, 0)[axis] + 1);
  return edges.length === 1 ? edges[0].name : "";
}

function coordinate(file, view, run, index, axis, name) {
  const stride = view.strides[axis], length = extent(view, run, index)[axis];
  const cells = Float64Array.from({length: kept(view, run, index)[axis]}, (_, i) => i * stride);
  const other = file.views.find((each) => each.name === name && each.kind === "line");
  const at = other ? other.taken.indexOf(view.taken[index]) : -1;
  const values = at < 0 ? null : numbers(other, run, at, 0);
  if (values === null || ![length, length + 1].includes(values.length)) {
    return {values: cells, label: view.strides.length > 1 ? `cell along axis ${axis}` : "index", unit: "cell"};
  }
  const centres = values.length > length;
  const found = cells.map((cell) => centres ? (values[cell] + values[cell + 1]) / 2 : values[cell]);
  return {values: found, label: label(other.columns[0]), unit: other.columns[0].unit};
}

// ---- What the controls say.

let files, entries;

function takeModel(model) {
  MODEL = model;
  files = MODEL.files;
  entries = files.flatMap((file) => file.views.map((view) => ({file, view})));
}

takeModel(MODEL);
const now = () => entries[Number(byId("variable").value)];
const number = (id) => Number(byId(id).value);
const FORMS = {
  scalar: [["curve", "curve over the steps"]], line: [["curve", "curve"]], image: [["map", "image"], ["curve", "curve along a line"]],
  volume: [["map", "slice"]], particles: [["bars", "histogram"], ["density", "density of two"], ["points", "points of two"]],
  vectors: [["curves", "curves"], ["points", "points of two"], ["density", "density of two"], ["bars", "histogram"]],
};
const COUNTED = ["bars", "density", "points"];

function fill(id, options, chosen) {
  byId(id).replaceChildren(...options.map(([value, text]) => new Option(text, value)));
  if (chosen !== undefined) byId(id).value = chosen;
}

function reveal(id, visible) { byId(id).closest("div").hidden = !visible; }

// The axis that is cut by the plane, null where all is drawn.
function cutAxis(view) {
  return view.kind === "volume" || (view.kind === "image" && byId("form").value === "curve") ? number("axis") : null;
}

function drawnAxes(view) {
  return view.strides.map((_, axis) => axis).filter((axis) => axis !== cutAxis(view));
}

// Of particles the last axis of their position, and the momentum or velocity along it: phase space.
function usualColumns(names) {
  const across = Math.max(0, names.findLastIndex((name) => name.startsWith("position")));
  const up = names.findIndex((name) => /^(momentum|velocity) /.test(name) && name.at(-1) === names[across].at(-1));
  return [across, up >= 0 ? up : Math.min(1, names.length - 1)];
}

function chooseVariable() {
  const {file, view} = now(), step = Number(byId("step").dataset.number ?? NaN);
  const vectors = view.kind === "vectors" ? Math.max(...view.runs.flatMap((run) => run.extents.map((each) => each ? each[0] : 0)), 0) : 0;
  fill("form", FORMS[view.kind], vectors > MOST_IN_CURVES ? "points" : FORMS[view.kind][0][0]);
  const names = view.columns.map((column) => column.name), [across, up] = usualColumns(names);
  fill("column", names.map((name, i) => [i, name]), across);
  fill("against", names.map((name, i) => [i, name]), up);
  fill("axis", view.strides.map((_, axis) => [axis, `axis ${axis}`]));
  byId("step").max = Math.max(0, view.taken.length - 1);
  // The step that was shown before, or the last one before it; at first the last one, which is what came out.
  const place = view.taken.findLastIndex((each, index) => Number.isNaN(step) ? RUNS.some((run) => has(view, run, index)) : file.steps[each] <= step);
  byId("step").value = Math.max(0, place);
  const run = RUNS.find((each) => has(view, each, number("step")));
  // A volume of one plane is that plane.
  if (view.kind === "volume" && run !== undefined) byId("axis").value = Math.max(0, kept(view, run, number("step")).findIndex((count, axis) => count === 1 && view.strides[axis] === 1));
  choosePlanes();
  byId("logarithmic").checked = byId("form").value === "map" && isMostlySmall(view, run);
}

// Spots on a background: on a linear scale nothing but the spots is seen.
function isMostlySmall(view, run) {
  if (run === undefined) return false;
  const {low, high, mean} = statistics(numbers(view, run, number("step"), number("column")));
  return low >= 0 && mean < SMALL * high;
}

function choosePlanes() {
  const {file, view} = now(), axis = cutAxis(view), [first, second] = drawnAxes(view);
  const isMap = byId("form").value === "map", counted = COUNTED.includes(byId("form").value);
  const run = RUNS.find((each) => has(view, each, number("step"))), found = run === undefined ? [] : kept(view, run, number("step"));
  const planes = axis !== null && found.length ? found[axis] : 0;
  byId("plane").max = Math.max(0, planes - 1);
  byId("plane").value = Math.floor(planes / 2);
  const horizontal = isMap ? second : first;
  for (const [id, which] of [["across", horizontal], ["up", isMap ? first : undefined]]) {
    const choices = counted || view.kind === "scalar" ? [] : coordinatesOf(file, view, which);
    const usual = usualCoordinate(file, view, which, id === "up" ? "vertical" : "horizontal");
    fill(id, [["", "index"], ...choices.map((each) => [each.name, each.name])], usual);
    reveal(id, choices.length > 0);
  }
  reveal("form", FORMS[view.kind].length > 1);
  reveal("column", view.columns.length > 1 && byId("form").value !== "curves");
  reveal("against", counted && byId("form").value !== "bars");
  reveal("axis", axis !== null && (planes > 1 || view.strides[axis] > 1 || view.kind !== "volume"));
  reveal("plane", planes > 1);
  reveal("step", view.kind !== "scalar" || file.steps.length > 1);
}

// ---- Panels: what is drawn, without the drawing.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const short = (value) => Number.isFinite(value) ? String(Number(value.toPrecision(4))) : "–";

function rangeOf(view, column, index) {
  const given = byId("fixed").checked
    ? RUNS.map((run) => view.runs[run].columns[column])
    : RUNS.filter((run) => has(view, run, index, column)).map((run) => statistics(numbers(view, run, index, column)));
  const known = given.filter((each) => each.low != null && Number.isFinite(each.low));
  const factor = byId("fixed").checked ? view.columns[column].factor : 1;
  const low = factor * Math.min(...known.map((each) => each.low)), high = factor * Math.max(...known.map((each) => each.high));
  if (!known.length) return [0, 1];
  return low < high ? [low, high] : [low - (Math.abs(low) * 0.1 || 1), high + (Math.abs(high) * 0.1 || 1)];
}

function about(values, what = "values") {
  const {low, high, mean, count, other} = statistics(values);
  if (!count) return `${values.length} ${what}`;
  return `${values.length} ${what}: minimum ${short(low)}, mean ${short(mean)}, maximum ${short(high)}`
    + (other ? `; ${other} not finite` : "");
}

function curve(x, y, text) {
  return {kind: "curve", x: x.values, y, xLabel: x.label, yLabel: text, about: about(y)};
}

function map(x, y, cells, text) {
  const [rows, columns] = cells.shape;
  const z = Array.from({length: rows}, (_, row) => cells.values.subarray(row * columns, (row + 1) * columns));
  return {kind: "map", x: x.values, y: y.values, z, xLabel: x.label, yLabel: y.label, zLabel: text, about: about(cells.values),
    undistorted: Boolean(x.unit) && x.unit === y.unit};
}

function arrayPanels(file, view, index) {
  const column = number("column"), axis = cutAxis(view), text = label(view.columns[column]);
  const found = RUNS.map((run) => slice(view, run, index, column, axis, number("plane")));
  const draw = (cells, run, name) => {
    const at = (each, id) => coordinate(file, view, run, index, each, byId(id).value);
    if (cells.shape.length === 2) return map(at(cells.axes[1], "across"), at(cells.axes[0], "up"), cells, name);
    return curve(at(cells.axes[0], "across"), cells.values, name);
  };
  const panels = found.map((cells, run) => cells && draw(cells, run, text));
  for (const panel of panels) if (panel) panel.range = rangeOf(view, column, index);
  return withDifference(panels, found, (a, b) => draw({...a, values: subtract(a.values, b.values)}, 0, `difference of ${text}`));
}

// The components of a list of vectors, a curve for each.
function curvesPanels(file, view, index) {
  const text = view.columns[0].unit ? `${view.name} (${view.columns[0].unit})` : view.name;
  const components = view.columns.map((_, column) => column);
  const found = RUNS.map((run) => components.every((column) => has(view, run, index, column))
    ? {curves: components.map((column) => numbers(view, run, index, column)), shape: kept(view, run, index)} : null);
  const draw = (curves, run, name) => {
    const x = coordinate(file, view, run, index, 0, byId("across").value);
    return {kind: "curves", x: x.values, ys: curves, names: view.columns.map((column) => column.name), xLabel: x.label, yLabel: name,
      about: about(curves.flatMap((values) => Array.from(values)))};
  };
  const ranges = components.map((column) => rangeOf(view, column, index));
  const range = [Math.min(...ranges.map(([low]) => low)), Math.max(...ranges.map(([, high]) => high))];
  const panels = found.map((cells, run) => cells && {...draw(cells.curves, run, text), range});
  return withDifference(panels, found, (a, b) => draw(a.curves.map((values, i) => subtract(values, b.curves[i])), 0, `difference of ${text}`));
}

function scalarPanels(file, view, index) {
  const steps = view.taken.map((each) => file.steps[each]);
  const found = RUNS.map((run) => {
    const values = Float64Array.from(view.taken, (_, each) => numbers(view, run, each, 0)?.[0] ?? NaN);
    return values.every(Number.isNaN) ? null : {values, shape: [values.length]};
  });
  const text = label(view.columns[0]);
  const draw = (values, run, name) => {
    const times = view.taken.map((each) => timeOf(file, run, each)), timed = times.every((time) => time !== null) && isMonotonic(times);
    const x = timed ? {values: times, label: file.timeUnit ? `time (${file.timeUnit})` : "time"} : {values: steps, label: "step"};
    return {...curve(x, values, name), mark: index};
  };
  const range = statistics(found.flatMap((cells) => cells ? Array.from(cells.values) : []));
  const panels = found.map((cells, run) => cells && {...draw(cells.values, run, text), ...(range.low < range.high ? {range: [range.low, range.high]} : {})});
  return withDifference(panels, found, (a, b) => draw(subtract(a.values, b.values), 0, `difference of ${text}`));
}

// Runs whose arrays have different shapes have no difference.
function withDifference(panels, found, draw) {
  if (RUNS.length < 2) return panels;
  const [a, b] = found;
  if (!a || !b) return [...panels, null];
  if (!same(a.shape, b.shape)) return [...panels, {kind: "text", about: `no difference: ${a.shape.join(" × ")} and ${b.shape.join(" × ")} values`}];
  return [...panels, {...draw(a, b), difference: true}];
}

function binsOf(values, [low, high], bins) {
  // The last bin includes its upper edge.
  return Int32Array.from(values, (value) => {
    const bin = Math.floor((value - low) / (high - low) * bins);
    return value === high ? bins - 1 : bin >= 0 && bin < bins ? bin : -1;
  });
}

const centres = ([low, high], bins) => Float64Array.from({length: bins}, (_, i) => low + (i + 0.5) * (high - low) / bins);

function particlePanels(view, index) {
  const [a, b] = [number("column"), number("against")], form = byId("form").value;
  const across = view.columns[a], up = view.columns[b], ranges = [rangeOf(view, a, index), rangeOf(view, b, index)];
  const there = RUNS.map((run) => has(view, run, index, a) && (form === "bars" || has(view, run, index, b)));
  const counted = RUNS.map((run) => {
    if (!there[run]) return null;
    const bins = binsOf(numbers(view, run, index, a), ranges[0], form === "bars" ? BINS : CELLS);
    const values = new Float64Array(form === "bars" ? BINS : CELLS * CELLS);
    if (form === "bars") for (const bin of bins) { if (bin >= 0) values[bin]++; }
    else binsOf(numbers(view, run, index, b), ranges[1], CELLS).forEach((row, i) => { if (row >= 0 && bins[i] >= 0) values[row * CELLS + bins[i]]++; });
    return {values, shape: form === "bars" ? [BINS] : [CELLS, CELLS]};
  });
  const draw = (cells, text) => form === "bars"
    ? {kind: "bars", x: centres(ranges[0], BINS), y: cells.values, xLabel: label(across), yLabel: text}
    : map({values: centres(ranges[0], CELLS), label: label(across)}, {values: centres(ranges[1], CELLS), label: label(up)}, cells, text);
  const panels = counted.map((cells, run) => {
    if (!cells) return null;
    const values = numbers(view, run, index, a), text = `${across.name}: ${about(values, "particles")}`;
    if (form !== "points") return {...draw(cells, "particles"), about: text};
    const every = Math.ceil(values.length / MOST_POINTS), other = numbers(view, run, index, b);
    const pick = (each) => each.filter((_, i) => i % every === 0);
    return {kind: "points", x: pick(values), y: pick(other), xLabel: label(across), yLabel: label(up), xRange: ranges[0], yRange: ranges[1],
      about: every > 1 ? `${text}; one of ${every} is drawn` : text};
  });
  return withDifference(panels, counted, (one, other) => draw({...one, values: subtract(one.values, other.values)}, "difference of particles"));
}

function makePanels() {
  const {file, view} = now(), index = number("step"), shown = SHOWN ? SHOWN.value : "0";
  const all = view.kind === "scalar" ? scalarPanels(file, view, index)
    : byId("form").value === "curves" ? curvesPanels(file, view, index)
    : COUNTED.includes(byId("form").value) ? particlePanels(view, index) : arrayPanels(file, view, index);
  const titles = [...MODEL.runs, ...(RUNS.length > 1 ? [`${MODEL.runs[1]} − ${MODEL.runs[0]}`] : [])];
  const panels = all.map((panel, i) => ({...(panel ?? {kind: "text", about: "nothing in this step"}), title: titles[i]}));
  return shown === "both" ? panels : [panels[shown === "difference" ? 2 : Number(shown)]];
}
