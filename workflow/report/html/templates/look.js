// Draws the panels of look_panels.js, of the variable, step and plane that the controls name.
const LIVE = byId("live") !== null;
const CONFIG = {displayModeBar: false, responsive: true};
// Colour and dashes of the curves of x, y and z.
const CURVES = [["--compute", "solid"], ["--bad", "dash"], ["--text", "dot"]];

function axisOf(title, more = {}) {
  return {title: {text: title}, gridcolor: colour("--line"), zeroline: false, linecolor: colour("--soft"), automargin: true, ...more};
}

const padded = ([low, high]) => [low - 0.04 * (high - low), high + 0.04 * (high - low)];

function logRange([low, high]) {
  const top = Math.log10(high > 0 ? high : 1);
  return [low > 0 ? Math.max(Math.log10(low), top - DECADES) : top - DECADES, top];
}

function figureOf(panel, pixels) {
  const logarithmic = byId("logarithmic").checked && !panel.difference;
  const layout = {
    margin: {l: 60, r: 15, t: 10, b: 50}, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {color: colour("--text"), family: getComputedStyle(document.body).fontFamily, size: 12},
    showlegend: false, xaxis: axisOf(panel.xLabel), yaxis: axisOf(panel.yLabel), bargap: 0, hovermode: "closest",
  };
  if (panel.kind === "map") return mapFigure(panel, layout, logarithmic, pixels);
  const style = {x: panel.x, y: panel.y, marker: {color: colour("--compute")}, line: {color: colour("--compute"), width: 1.6}};
  if (logarithmic && panel.kind !== "points") layout.yaxis.type = "log";
  if (panel.kind === "curves") {
    if (panel.range) layout.yaxis.range = logarithmic ? padded(logRange(panel.range)) : padded(panel.range);
    Object.assign(layout, {showlegend: true, legend: {orientation: "h", x: 0, y: 1, yanchor: "bottom"}});
    layout.margin.t = 40;
    return {traces: panel.ys.map((y, i) => ({type: "scatter", mode: "lines", x: panel.x, y, name: panel.names[i],
      line: {color: colour(CURVES[i][0]), dash: CURVES[i][1], width: 1.6}})), layout};
  }
  if (panel.kind === "bars") return {traces: [{type: "bar", x: panel.x, y: panel.y, marker: {color: colour("--compute"), line: {width: 0}}}], layout};
  if (panel.kind === "points") {
    Object.assign(layout.xaxis, {range: padded(panel.xRange)});
    Object.assign(layout.yaxis, {range: padded(panel.yRange)});
    return {traces: [{...style, type: "scatter", mode: "markers", marker: {color: colour("--compute"), size: 3, opacity: 0.6}}], layout};
  }
  if (panel.range) layout.yaxis.range = logarithmic ? padded(logRange(panel.range)) : padded(panel.range);
  const traces = [{...style, type: "scatter", mode: panel.x.length > 200 ? "lines" : "lines+markers", marker: {color: colour("--compute"), size: 4}}];
  if (panel.mark !== undefined) {
    traces.push({type: "scatter", mode: "markers", x: [panel.x[panel.mark]], y: [panel.y[panel.mark]], marker: {color: colour("--bad"), size: 11}});
  }
  return {traces, layout};
}

function mapFigure(panel, layout, logarithmic, pixels) {
  layout.margin.b = 115;  // room for the axis, and the scale below it
  const z = logarithmic ? panel.z.map((row) => Array.from(row, (value) => value > 0 ? Math.log10(value) : null)) : panel.z;
  const trace = {type: "heatmap", x: panel.x, y: panel.y, z, colorscale: panel.difference ? DIFFERENCES : "Viridis",
    colorbar: {title: {text: logarithmic ? `log₁₀ of ${panel.zLabel}` : panel.zLabel, side: "top"}, orientation: "h", y: -58 / (pixels - 125), yanchor: "top", len: 280, lenmode: "pixels", thickness: 12, outlinewidth: 0}};
  const found = panel.range ?? (({low, high}) => [low, high])(statistics(panel.z.flatMap((row) => Array.from(row))));
  let [low, high] = logarithmic ? logRange(found) : found;
  if (panel.difference) { high = Math.max(Math.abs(low), Math.abs(high)) || 1; low = -high; }
  Object.assign(trace, {zmin: low, zmax: high});
  const [width, height] = [panel.x, panel.y].map((each) => Math.abs(each[each.length - 1] - each[0]));
  if (panel.undistorted && width < 4 * height && height < 4 * width) {
    Object.assign(layout.yaxis, {scaleanchor: "x", constrain: "domain", constraintoward: "top"});
    Object.assign(layout.xaxis, {constrain: "domain"});
  }
  return {traces: [trace], layout};
}

function figureElement(place) {
  const figure = document.createElement("figure");
  figure.innerHTML = `<h2></h2><div class="plot" role="img" aria-labelledby="title${place} about${place}"></div>`
    + `<figcaption><span></span><button type="button">Save as PNG</button></figcaption>`;
  figure.querySelector("h2").id = `title${place}`;
  figure.querySelector("span").id = `about${place}`;
  const plot = figure.querySelector(".plot");
  plot.id = `plot${place}`;
  figure.querySelector("button").addEventListener("click", () =>
    Plotly.downloadImage(plot, {format: "png", scale: 2, filename: `${now().view.name.replaceAll("/", "-")}-${number("step")}`}));
  return figure;
}

async function drawPanel(panel, figure) {
  figure.querySelector("h2").textContent = panel.title;
  figure.querySelector("span").textContent = panel.about;
  const plot = figure.querySelector(".plot"), drawable = panel.kind !== "text";
  plot.hidden = figure.querySelector("button").hidden = !drawable;
  if (!drawable) { Plotly.purge(plot); return; }
  const {traces, layout} = figureOf(panel, plot.clientHeight);
  await Plotly.react(plot, traces, layout, CONFIG);
}

function stateText() {
  const {file, view} = now(), index = number("step"), step = view.taken[index];
  const time = RUNS.map((run) => timeOf(file, run, step)).find((each) => each !== null);
  const parts = [`step ${file.steps[step]}`];
  if (time !== undefined) parts.push(`time ${short(time)}${file.timeUnit ? ` ${file.timeUnit}` : ""}`);
  byId("step-text").value = `${parts.join(", ")} (${index + 1} of ${view.taken.length})`;
  byId("step").dataset.number = file.steps[step];
  byId("step").setAttribute("aria-valuetext", byId("step-text").value);
  const axis = cutAxis(view);
  if (axis !== null && Number(byId("plane").max) > 0) {
    const cell = number("plane") * view.strides[axis];
    byId("plane-text").value = `cell ${cell} along axis ${axis}`;
    byId("plane").setAttribute("aria-valuetext", byId("plane-text").value);
    parts.push(byId("plane-text").value);
  }
  byId("thinned").textContent = view.thinned ? `Thinned: ${view.thinned}.` : "";
  return `${view.name} in ${file.name}: ${parts.join(", ")}`;
}

// One drawing at a time: while the slider moves, only the newest position is drawn next.
let drawing = false, again = false, drawn = 0;

async function draw() {
  if (drawing) { again = true; return; }
  drawing = true;
  do {
    again = false;
    byId("state").textContent = stateText();
    const panels = makePanels(), place = byId("panels");
    while (place.children.length > panels.length) { Plotly.purge(place.lastChild.querySelector(".plot")); place.lastChild.remove(); }
    while (place.children.length < panels.length) place.append(figureElement(place.children.length));
    await Promise.all(panels.map((panel, i) => drawPanel(panel, place.children[i])));
  } while (again);
  drawing = false;
  document.body.dataset.drawn = ++drawn;
  performance.mark("drawn");
}

// Of a page that is live: whether the newest step is shown when it comes. Who moves away from it stays where they are.
let follows = false;
const lastPlace = (view) => Math.max(0, view.taken.findLastIndex((_, index) => RUNS.some((run) => has(view, run, index))));

function move(id, by) {
  const slider = byId(id);
  slider.value = Math.min(Number(slider.max), Math.max(0, Number(slider.value) + by));
  if (id === "step") moved();
  draw();
}

function moved() { follows = LIVE && number("step") >= lastPlace(now().view); }

function listVariables() {
  const groups = files.map((file, place) => {
    const group = document.createElement("optgroup");
    group.label = file.name;
    group.append(...entries.flatMap((entry, i) => entry.file === file ? [new Option(entry.view.name, i)] : []));
    return group;
  });
  byId("variable").replaceChildren(...groups);
  byId("variable").value = MODEL.first;
}

function start() {
  listVariables();
  chooseVariable();
  byId("variable").addEventListener("change", () => {
    chooseVariable();
    if (follows) byId("step").value = lastPlace(now().view);
    draw();
  });
  byId("step").addEventListener("input", moved);
  for (const id of ["form", "axis"]) byId(id).addEventListener("change", () => { choosePlanes(); draw(); });
  for (const id of ["column", "against", "across", "up", "logarithmic", "fixed", ...(SHOWN ? ["shown"] : [])]) byId(id).addEventListener("change", draw);
  for (const id of ["step", "plane"]) byId(id).addEventListener("input", draw);
  byId("before").addEventListener("click", () => move("step", -1));
  byId("next").addEventListener("click", () => move("step", 1));
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input:not([type=checkbox]), select, textarea") || event.ctrlKey || event.altKey || event.metaKey) return;
    const by = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key];
    if (by === undefined) return;
    event.preventDefault();
    move(event.shiftKey ? "plane" : "step", by);
  });
  addEventListener("resize", draw);  // the place of the scale below an image depends on the height of the drawing
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return draw();
}
