// The page of a running run: asks for the steps that it lacks, and shows the newest one unless the user has moved away
// from it. What is asked for and answered: look/live_server.py, live_steps.py.
const TOKEN = new URLSearchParams(location.search).get("token"), PAGE = crypto.randomUUID?.() ?? String(Math.random());
const RETRY_MS = 1000, PAUSE_MS = 50;
let version = "", ended = "", cameAt = null, heardAt = performance.now(), refused = false;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function ask() {
  const given = new URLSearchParams({token: TOKEN, after: version, page: PAGE});
  const answer = await fetch(`/news?${given}`, {cache: "no-store"});
  refused = answer.status === 403;
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

// The newest step of all streams.
function newestStep() {
  const {file} = now();
  return file.steps[file.steps.length - 1];
}

function sayLive() {
  const parts = [], seconds = (since) => (performance.now() - since) / 1000;
  if (ended) parts.push(ended);
  else if (refused) parts.push("the token is no longer valid: open the address that wf look has printed last");
  else if (seconds(heardAt) > 15) parts.push(`no answer from wf look for ${Math.round(seconds(heardAt))} s: it has ended, or the tunnel is closed; the steps here can still be looked at`);
  else parts.push("live");
  if (!entries.length) parts.push("no step yet");
  else {
    parts.push(`step ${newestStep()}`);
    const age = seconds(cameAt);
    if (!ended) parts.push(age < 10 ? `${age.toFixed(1)} s ago` : `${Math.round(age)} s ago`);
  }
  byId("live").textContent = parts.join(" · ");
}

// Another model: other variables, or the same ones with other resolution. What was chosen stays where it still is.
function replaceModel(model) {
  const first = !entries.length, before = first ? null : now();
  takeModel(model);
  if (first) { follows = true; byId("controls").hidden = false; return start(); }
  listVariables();
  const same = entries.findIndex(({file, view}) => file.name === before.file.name && view.name === before.view.name);
  if (same >= 0) byId("variable").value = same;
  chooseVariable();
  if (follows) byId("step").value = lastPlace(now().view);
  return draw();
}

function takeSteps(news) {
  const {file: shown, view} = now(), wasEmpty = !RUNS.some((run) => view.taken.some((_, index) => has(view, run, index)));
  const at = shown.steps[view.taken[number("step")]];
  news.forEach((each, i) => {
    const file = files[i], dropped = file.steps.length + each.steps.length - each.kept;
    const push = (list, more) => { list.push(...more); list.splice(0, Math.max(0, dropped)); };
    push(file.steps, each.steps);
    push(file.times[0], each.times);
    file.views.forEach((known, place) => {
      const more = each.views[place], run = known.runs[0];
      push(run.extents, more.extents);
      run.columns.forEach((column, j) => {
        push(column.values, more.columns[j].values);
        Object.assign(column, {low: more.columns[j].low, high: more.columns[j].high});
      });
      known.taken = file.steps.map((_, index) => index);
    });
  });
  byId("step").max = Math.max(0, view.taken.length - 1);
  if (wasEmpty) chooseVariable();
  byId("step").value = follows ? lastPlace(view) : Math.max(0, view.taken.findLastIndex((each) => shown.steps[each] <= at));
  reveal("step", view.kind !== "scalar" || shown.steps.length > 1);
  return draw();
}

async function live() {
  setInterval(sayLive, 100);
  while (!ended) {
    const news = await ask().catch(() => null);  // no connection: it may come back
    if (news === null) { await pause(RETRY_MS); continue; }
    heardAt = performance.now();
    if (news.age_s !== null) cameAt = heardAt - 1000 * news.age_s;
    const isNew = news.version !== version;
    version = news.version;
    if (news.model) await replaceModel(news.model);
    else if (news.files && isNew) await takeSteps(news.files);
    const notes = news.notes.map((text) => Object.assign(document.createElement("p"), {textContent: text}));
    byId("notes").hidden = !notes.length;
    byId("notes").replaceChildren(byId("notes").firstElementChild, ...notes);
    ended = news.ended;
    await pause(PAUSE_MS);
  }
  sayLive();
}

live();
