const GROUPS = { inputs: "Inputs", outputs: "Outputs", state: "Registers", counts: "Counters" };
const WHOLE = 256, FOLDED = 12, LONG = 160;
let bytes, starts = [], kept = [], pictures = [], now = -1;
let before = new Uint8Array(data.size), state = new Uint8Array(data.size), name = 0, operation = 0;

function varint(at) {
  let value = 0, shift = 1;
  for (;;) {
    const byte = bytes[at++];
    value += (byte & 127) * shift;
    if (byte < 128) return [value, at];
    shift *= 128;
  }
}

// Apply the changes of the event whose bytes begin at `at`; returns where they end. touched(byte) of every byte that
// changes: a run may include some that do not.
function apply(at, target, touched) {
  let count, skip, length, place = 0;
  [name, at] = varint(at);
  [operation, at] = varint(at);
  [count, at] = varint(at);
  for (let run = 0; run < count; run += 1) {
    [skip, at] = varint(at);
    [length, at] = varint(at);
    place += skip;
    if (touched) for (let byte = 0; byte < length; byte += 1) if (bytes[at + byte]) touched(place + byte);
    if (target) for (let byte = 0; byte < length; byte += 1) target[place + byte] ^= bytes[at + byte];
    place += length;
    at += length;
  }
  return at;
}

// Where every event begins, and the state after every 256th.
function index() {
  const running = new Uint8Array(data.size);
  let at = 0;
  for (let event = 0; event < data.events; event += 1) {
    starts.push(at);
    at = apply(at, running);
    if (event % WHOLE === 0) kept.push(running.slice());
  }
}

// The state after an event, from the nearest saved one.
function stateAfter(event) {
  const near = Math.floor(event / WHOLE), found = kept[near].slice();
  for (let each = near * WHOLE + 1; each <= event; each += 1) apply(starts[each], found);
  if (event === near * WHOLE) apply(starts[event], null);
  return found;
}

const width = (field) => Math.ceil((field.bits * field.lanes) / 8);
const lane = (from, field, at) => codeAt(from, field.first * 8 + at * field.bits, field.bits);

function changes(field, old, fresh) {
  const found = [];
  for (let at = 0; at < field.lanes; at += 1) if (lane(old, field, at) !== lane(fresh, field, at)) found.push(at);
  return found;
}

const spelled = (field, code) => field.text ? data.texts[Number(code)] : valueOf(code, field);

// Lanes in hex and as values: all of a narrow port, of a wide one the changed ones or the first.
function lanesOf(field, changed) {
  const every = Array.from({ length: field.lanes }, (_, at) => lane(state, field, at));
  const show = (spell) => {
    if (field.bits === 1 && field.lanes > 1) return every.join("").replace(/(.{8})(?=.)/g, "$1 ");
    if (field.lanes <= FOLDED) return runs(every.map(spell)).join(" ") || "-";
    const some = changed.length ? changed.slice(0, FOLDED) : [];
    if (some.length) return some.map((at) => "[" + at + "] " + spell(every[at])).join("  ") + (changed.length > some.length ? " \u2026 " + changed.length + " changed" : "");
    const parts = runs(every.map(spell));
    return parts.slice(0, FOLDED).join(" ") + (parts.length > FOLDED ? " \u2026 " + field.lanes + " lanes" : "");
  };
  const coded = !field.text && field.group !== "counts" && (field.bits > 1 || field.lanes === 1);
  return [coded ? show((code) => hex(code, field.bits)) : "", show((code) => spelled(field, code))];
}

function row(field, changed) {
  const line = element("tr", "", changed.length ? "new" : ""), head = element("th"), press = element("button");
  press.append(broken(field.name));
  head.scope = "row";
  press.title = (field.meaning ? field.meaning + "; " : "") + "select: next change";
  press.onclick = () => go(nextChange(field));
  head.append(press);
  if (changed.length) head.append(element("span", ", changed", "hidden"));
  const [code, value] = lanesOf(field, changed);
  const cell = element("td", field.text && value.length > LONG ? value.slice(0, LONG) + " \u2026" : value, "value");
  if (field.text && value.length > LONG) cell.append(folded("all of it", () => value));
  if (changed.length && now > 0) {
    const old = field.lanes === 1 ? " was " + spelled(field, lane(before, field, 0)) : "";
    if (old) cell.append(element("span", old, "was"));
  }
  if (field.lanes > FOLDED && field.bits > 1) cell.append(folded("all " + field.lanes + " lanes", () => everyLane(field)));
  line.append(head, element("td", field.text || field.group === "counts" ? "" : field.bits + (field.lanes > 1 ? " \u00d7 " + field.lanes : ""), "bits faint"), element("td", code, "code"), cell);
  line.dataset.name = field.name;
  return line;
}

// Text that is generated when it is opened.
function folded(title, make) {
  const more = element("details"), list = element("pre"), event = now;
  more.append(element("summary", title), list);
  more.ontoggle = () => { if (more.open && !list.textContent && event === now) list.textContent = make(); };
  return more;
}

function everyLane(field) {
  const lines = [];
  for (let at = 0; at < field.lanes; at += 1) {
    const code = lane(state, field, at);
    lines.push("[" + at + "] " + hex(code, field.bits) + " = " + spelled(field, code));
  }
  return lines.join("\n");
}

function tables() {
  const only = id("only").checked, parts = [];
  for (const group of Object.keys(GROUPS)) {
    const body = element("tbody");
    for (const field of data.fields.filter((each) => each.group === group)) {
      const changed = now > 0 ? changes(field, before, state) : [];
      if (!only || now === 0 || changed.length) body.append(row(field, changed));
    }
    if (!body.children.length) continue;
    const table = element("table"), head = element("thead"), line = element("tr"), wide = element("div", "", "wide");
    for (const title of ["name", "bits", "hex", "value"]) {
      const cell = element("th", title, title === "bits" ? "bits" : "");
      cell.scope = "col";
      line.append(cell);
    }
    head.append(line);
    table.append(element("caption", GROUPS[group]), head, body);
    wide.append(table);
    parts.push(wide);
  }
  id("tables").replaceChildren(...parts);
}

// Lines of the drawing that belongs to an event.
function pictureOf(event) {
  const number = Math.floor(event / data.every);
  let first = number;
  while (!Array.isArray(pictures[first])) first -= 1;
  const lines = pictures[first].slice();
  for (let each = first + 1; each <= number; each += 1) for (const at in pictures[each]) lines[at] = pictures[each][at];
  return lines.join("\n");
}

function picture() {
  if (!pictures.length) return;
  id("picture").innerHTML = pictureOf(now);
  const drawn = data.first + Math.floor(now / data.every) * data.every;
  id("drawing").textContent = data.every > 1 ? data.drawings + "; this is event " + drawn : "";
}

const told = (other, place) => other.rows && other.rows.some(([first, last]) => first <= place && place <= last);

function decisions() {
  const place = data.clocked ? data.first + now : operation, open = new Set();
  for (const each of document.querySelectorAll("#list details[open]")) open.add(each.dataset.id);
  const parts = data.decisions.map((each) => {
    const here = each.taken || each.others.some((other) => told(other, place));
    return [here, decision(each, here, place, open.has(each.id))];
  });
  if (place >= data.tried) id("deciding").textContent = "Not tried here: variants are tried in the first " + data.tried + (data.clocked ? " events." : " operations.");
  else id("deciding").textContent = data.decisions.length ? parts.filter(([here]) => here).length + " of " + data.decisions.length
    + " are active here: a variant would change an output of this " + (data.clocked ? "event" : "operation") + "." : "none";
  id("list").replaceChildren(...parts.filter(([here]) => here).concat(parts.filter(([here]) => !here)).map(([, made]) => made));
}

function decision(each, here, place, open) {
  const whole = element("div", "", here ? "here" : "faint"), more = element("details"), list = element("ul");
  more.dataset.id = each.id;
  more.open = open;
  more.append(element("summary", (here ? "\u25CF " : "") + each.id + "  " + each.title + (each.taken ? " (this case is about it)" : "")));
  for (const other of each.others) {
    const says = place >= data.tried ? "" : other.rows === null ? ": no such device here" : told(other, place) ? ": changes an output here" : ": changes no output here";
    list.append(element("li", other.says + says));
  }
  if (each.reason) list.append(element("li", "no variant can be detected: " + each.reason));
  more.append(list, element("pre", each.text));
  whole.append(more);
  return whole;
}

function nextChange(field) {
  for (let event = now + 1; event < data.events; event += 1) {
    let hit = false;
    apply(starts[event], null, (byte) => { if (byte >= field.first && byte < field.first + width(field)) hit = true; });
    if (hit) return event;
  }
  return now;
}

// Show an event; its number counts from the first of the page.
function go(event) {
  event = Math.max(0, Math.min(data.events - 1, event));
  before = event > 0 ? stateAfter(event - 1) : new Uint8Array(data.size);
  state = stateAfter(event);
  now = event;
  apply(starts[event], null);
  const number = String(data.first + event);
  id("slider").value = id("number").value = number;
  id("name").textContent = data.names[name];
  id("slider").setAttribute("aria-valuetext", "event " + number + ", " + data.names[name]);
  id("back").disabled = id("first").disabled = event === 0;
  id("next").disabled = id("last").disabled = event === data.events - 1;
  id("link").textContent = id("link").href = "#event=" + number;
  if (location.hash !== "#event=" + number) history.replaceState(null, "", "#event=" + number);
  tables();
  picture();
  decisions();
}

function linked() {
  const found = /^#event=(\d+)$/.exec(location.hash);
  if (found && Number(found[1]) - data.first !== now) go(Number(found[1]) - data.first);
  return found !== null;
}

function key(press) {
  if (press.ctrlKey || press.metaKey || press.altKey || press.target.id === "number") return;
  const moves = { ArrowRight: now + 1, ArrowLeft: now - 1, PageDown: now + 10, PageUp: now - 10, Home: 0, End: data.events - 1 };
  if (press.key in moves) go(moves[press.key]);
  else if (press.key === "c") { id("only").checked = !id("only").checked; tables(); }
  else return;
  press.preventDefault();
}

async function start() {
  bytes = await inflated(data.stream);
  if (data.pictures) pictures = JSON.parse(new TextDecoder().decode(await inflated(data.pictures)));
  index();
  const last = data.first + data.events - 1;
  id("about").textContent = data.paper + ". " + data.about + " Events " + data.first + " to " + last + " of " + data.total
    + (data.events < data.total ? "; `refemu step --events A:B` shows others" : "") + "; " + data.drawings + ".";
  for (const each of [id("slider"), id("number")]) { each.min = data.first; each.max = last; }
  id("main").className = pictures.length ? "drawn" : "";
  id("left").hidden = !pictures.length;
  id("slider").oninput = () => go(Number(id("slider").value) - data.first);
  id("number").onchange = () => go(Number(id("number").value) - data.first);
  id("only").onchange = tables;
  for (const [button, move] of [["first", () => 0], ["back", () => now - 1], ["next", () => now + 1], ["last", () => data.events - 1]]) id(button).onclick = () => go(move());
  document.addEventListener("keydown", key);
  window.addEventListener("hashchange", linked);
  if (!linked()) go(0);
  document.documentElement.dataset.opened = String(Math.round(performance.now()));
  document.documentElement.dataset.ready = "yes";
}
start();
