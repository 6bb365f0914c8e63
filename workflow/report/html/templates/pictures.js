// Pictures of steps one at a time, chosen by a slider or the arrow keys. Without JavaScript they stand side by side.
"use strict";
(() => {
let used = null;

function addSlider(series, place) {
  const frames = series.querySelector(".frames"), figures = [...frames.children];
  const slider = Object.assign(document.createElement("input"), {type: "range", id: `series${place}`, min: 0, max: figures.length - 1, value: 0});
  const label = Object.assign(document.createElement("label"), {htmlFor: slider.id, textContent: "Step"});
  const shown = Object.assign(document.createElement("output"), {htmlFor: slider.id});
  const controls = Object.assign(document.createElement("div"), {className: "steps"});
  const show = () => {
    used = move;
    figures.forEach((figure, i) => figure.classList.toggle("current", i === Number(slider.value)));
    shown.value = `${figures[slider.value].querySelector("figcaption").textContent} (${Number(slider.value) + 1} of ${figures.length})`;
    slider.setAttribute("aria-valuetext", shown.value);
  };
  const move = (by) => { slider.value = Math.min(figures.length - 1, Math.max(0, Number(slider.value) + by)); show(); };
  slider.addEventListener("input", show);
  controls.append(label, slider, shown);
  series.prepend(controls);
  series.classList.add("stepped");
  // All that was reached by scrolling is reached by the slider now.
  frames.removeAttribute("tabindex");
  frames.removeAttribute("role");
  frames.removeAttribute("aria-label");
  show();
}

document.querySelectorAll(".series").forEach(addSlider);
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
  const by = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key];
  // Home and End scroll the page unless the pictures have the focus.
  // What scrolls by the arrow keys itself keeps them.
  if (event.target.closest(".scroll, .drawing")) return;
  if (by === undefined || (!Number.isFinite(by) && !event.target.closest(".series"))) return;
  event.preventDefault();
  used(by);
});
})();
