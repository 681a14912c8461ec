const PER_PAGE = 100, FOLDED = 12;
let bytes, flags = [], differ, shown = [], page = 0, open = -1;

// Where every column begins in the bytes: flags of 4 bytes, marks of one, then the columns.
function index() {
  let at = data.rows * 4;
  const words = new DataView(bytes.buffer);
  for (let row = 0; row < data.rows; row += 1) flags.push(words.getUint32(row * 4, true));
  differ = bytes.subarray(at, at + data.rows);
  at += data.rows;
  for (const column of data.columns) {
    column.at = at;
    at += data.rows * column.lanes * column.bytes;
  }
}

function codes(column, row) {
  const size = column.bytes, found = [];
  for (let lane = 0; lane < column.lanes; lane += 1) found.push(codeAt(bytes, (column.at + (row * column.lanes + lane) * size) * 8, size * 8));
  return found;
}

// The block of cases that holds a row; rows count from the first of the set.
function blockOf(row) {
  let low = 0, high = data.cases.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (data.cases[middle].first <= row) low = middle; else high = middle - 1;
  }
  return data.cases[low];
}

function caseOf(row) {
  const block = blockOf(row), inside = row - block.first;
  return block.id + "/" + Math.floor(inside / block.rows) + (block.rows > 1 ? ", row " + (inside % block.rows) : "");
}

const flagsOf = (row) => Object.keys(data.flags).filter((name) => (flags[row] >> data.flags[name]) & 1);

function filter() {
  const kind = id("kind").value, flag = id("flag").value, decision = id("decision").value, only = id("only").checked;
  shown = [];
  for (let row = 0; row < data.rows; row += 1) {
    if (only && !differ[row]) continue;
    if (flag && !((flags[row] >> data.flags[flag]) & 1)) continue;
    if (kind || decision) {
      const block = blockOf(row + data.first);
      if ((kind && block.kind !== kind) || (decision && block.decision !== decision)) continue;
    }
    shown.push(row);
  }
  page = 0;
}

function line(row) {
  const block = blockOf(row + data.first), made = element("tr", "", "row" + (differ[row] ? " wrong" : "") + (row === open ? " open" : ""));
  const head = element("th"), press = element("button", String(row + data.first));
  head.scope = "row";
  press.setAttribute("aria-expanded", String(row === open));
  head.append(press);
  const about = element("td");
  about.append(broken(caseOf(row + data.first)));
  made.append(head, about, element("td", block.why, "wide-only"), element("td", block.decision, "wide-only"), element("td", flagsOf(row).join(" ")));
  if (data.answers) made.append(element("td", differ[row] ? "differs" : "equal", differ[row] ? "fail" : "pass"));
  made.dataset.row = row + data.first;
  made.onclick = () => choose(row === open ? -1 : row);
  return made;
}

// Lanes in hex and as values: wide ports fold, those that differ first.
function cellsOf(column, row, marks) {
  const every = codes(column, row), cell = element("td", "", "code");
  const text = (at) => {
    const code = every[at] & ((1n << BigInt(column.bits)) - 1n), value = valueOf(code, column);
    return hex(code, column.bits) + (value === "" ? "" : " = " + value);
  };
  const put = (at) => cell.append(element(marks.has(at) ? "b" : "span", (column.lanes > 1 ? "[" + at + "] " : "") + text(at)), element("br"));
  const some = marks.size ? [...marks].slice(0, FOLDED) : [...Array(Math.min(column.lanes, FOLDED)).keys()];
  if (column.bits === 1 && column.lanes > 1) {
    every.forEach((code, at) => cell.append(element(marks.has(at) ? "b" : "span", String(code))));
  } else some.forEach(put);
  if (column.lanes > some.length && column.bits > 1) {
    const more = element("details"), list = element("pre");
    more.append(element("summary", "all " + column.lanes + " lanes"), list);
    more.ontoggle = () => { if (more.open && !list.textContent) list.textContent = every.map((_, at) => "[" + at + "] " + text(at)).join("\n"); };
    more.onclick = (press) => press.stopPropagation();
    cell.append(more);
  }
  return cell;
}

const part = (array, name) => data.columns.find((each) => each.array === array && each.part === name);

// Lanes of an output in which a bit that counts differs, or is unknown.
function wrongLanes(value, row) {
  const answer = part(value.array, "answer"), care = part(value.array, "care"), unknown = part(value.array, "unknown"), found = new Set();
  if (!answer || !differ[row]) return found;
  const want = codes(value, row), got = codes(answer, row), counts = care ? codes(care, row) : null, open = unknown ? codes(unknown, row) : null;
  want.forEach((code, at) => { if (((code ^ got[at]) | (open ? open[at] : 0n)) & (counts ? counts[at] : ~0n)) found.add(at); });
  return found;
}

function inside(row) {
  const made = element("tr"), cell = element("td", "", "inside"), block = blockOf(row + data.first);
  cell.colSpan = data.answers ? 6 : 5;
  cell.append(element("p", block.why + (block.decision ? " (" + block.decision + ": " + (data.titles[block.decision] || "") + ")" : "")));
  for (const name of flagsOf(row)) cell.append(element("p", name + ": " + data.why[name], "faint"));
  for (const [group, title] of [["inputs", "Inputs"], ["outputs", "Outputs"], ["state", "Registers"]]) {
    const columns = data.columns.filter((each) => each.group === group && each.part === "value");
    if (!columns.length) continue;
    const table = element("table"), head = element("tr"), answered = group !== "inputs" && data.answers;
    for (const text of ["port", answered ? "want" : "value", ...(answered ? ["got"] : [])]) {
      const each = element("th", text);
      each.scope = "col";
      head.append(each);
    }
    table.append(element("caption", title), head);
    for (const column of columns) {
      const body = element("tr"), marks = wrongLanes(column, row), name = element("th", column.name), answer = part(column.array, "answer");
      name.scope = "row";
      name.title = column.meaning;
      body.append(name, cellsOf(column, row, marks));
      if (answered) body.append(answer ? cellsOf(answer, row, marks) : element("td", "not answered", "faint"));
      body.dataset.name = column.name;
      table.append(body);
    }
    const wide = element("div", "", "wide");
    wide.append(table);
    cell.append(wide);
  }
  made.append(cell);
  return made;
}

function table() {
  const first = page * PER_PAGE, some = shown.slice(first, first + PER_PAGE), parts = [];
  for (const row of some) {
    parts.push(line(row));
    if (row === open) parts.push(inside(row));
  }
  document.querySelector("#rows tbody").replaceChildren(...parts);
  id("range").textContent = shown.length ? "page " + (page + 1) + " of " + Math.ceil(shown.length / PER_PAGE) + ", " + shown.length + " rows" : "no row";
  id("back").disabled = page === 0;
  id("next").disabled = first + PER_PAGE >= shown.length;
}

// Open a row of the set, counted from the first of the page's; -1 for none.
function choose(row) {
  open = row;
  const hash = row < 0 ? "" : "#row=" + (row + data.first);
  if (location.hash !== hash) history.replaceState(null, "", hash || location.pathname);
  id("link").textContent = hash || "none";
  id("link").href = hash || "#";
  if (row >= 0) {
    if (!shown.includes(row)) clear();
    page = Math.floor(shown.indexOf(row) / PER_PAGE);
  }
  table();
  const line = document.querySelector("tr.open");
  if (line) line.scrollIntoView({ block: "start" });
}

function clear() {
  for (const name of ["kind", "flag", "decision"]) id(name).value = "";
  id("only").checked = false;
  filter();
}

function turn(pages) {
  const most = Math.max(0, Math.ceil(shown.length / PER_PAGE) - 1);
  page = Math.max(0, Math.min(most, page + pages));
  table();
}

function linked() {
  const found = /^#row=(\d+)$/.exec(location.hash), row = found ? Number(found[1]) - data.first : -1;
  if (row >= 0 && row < data.rows && row !== open) choose(row);
}

function key(press) {
  if (press.ctrlKey || press.metaKey || press.altKey || /^(SELECT|INPUT)$/.test(press.target.tagName)) return;
  const step = { ArrowUp: -1, ArrowDown: 1 }[press.key], place = shown.indexOf(open);
  if (press.key === "ArrowLeft") turn(-1);
  else if (press.key === "ArrowRight") turn(1);
  else if (step && open >= 0 && place + step >= 0 && place + step < shown.length) choose(shown[place + step]);
  else if (press.key === "Escape") choose(-1);
  else return;
  press.preventDefault();
}

function options(name, values) {
  const counts = new Map();
  for (const value of values) if (value) counts.set(value, (counts.get(value) || 0) + 1);
  const all = element("option", "all");
  all.value = "";
  id(name).append(all);
  for (const value of [...counts.keys()].sort()) {
    const made = element("option", value + (data.titles[value] ? " " + data.titles[value] : ""));
    made.value = value;
    id(name).append(made);
  }
  id(name).onchange = () => { filter(); table(); };
}

async function start() {
  bytes = await inflated(data.stream);
  index();
  const last = data.first + data.rows - 1;
  id("about").textContent = data.unit + " [" + data.config + "]. Rows " + data.first + " to " + last + " of " + data.total
    + (data.rows < data.total ? "; `refemu view --rows A:B` shows others." : ".") + (data.answers ? " Answers: " + data.answers + "." : "");
  options("kind", data.cases.map((each) => each.kind));
  options("flag", Object.keys(data.flags));
  options("decision", data.cases.map((each) => each.decision));
  id("answer").hidden = !data.answers;
  if (data.answers) {
    id("diagnosis").hidden = id("onlylabel").hidden = false;
    id("said").textContent = data.diagnosis.join("\n");
    id("tofirst").hidden = data.firstdiffer === null || data.firstdiffer < data.first || data.firstdiffer > last;
    id("tofirst").onclick = () => choose(data.firstdiffer - data.first);
  }
  id("only").onchange = () => { filter(); table(); };
  id("back").onclick = () => turn(-1);
  id("next").onclick = () => turn(1);
  document.addEventListener("keydown", key);
  window.addEventListener("hashchange", linked);
  filter();
  table();
  linked();
  document.documentElement.dataset.opened = String(Math.round(performance.now()));
  document.documentElement.dataset.ready = "yes";
}
start();
