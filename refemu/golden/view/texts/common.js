"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const id = (name) => document.getElementById(name);

function element(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== "") made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

// Bytes of a base64 text that holds a raw deflate stream.
async function inflated(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The code of `bits` bits from bit `first` of bytes on, the lowest bit first.
function codeAt(bytes, first, bits) {
  let code = 0n, have = 0n;
  for (let at = first >> 3; at <= (first + bits - 1) >> 3; at += 1, have += 8n) code |= BigInt(bytes[at]) << have;
  return (code >> BigInt(first & 7)) & ((1n << BigInt(bits)) - 1n);
}

const hex = (code, bits) => "0x" + code.toString(16).padStart(Math.ceil(bits / 4), "0");
const view = new DataView(new ArrayBuffer(8));

function digits(value, count) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0";
  return String(Number(value.toPrecision(count)));
}

function float16(code) {
  const sign = code & 0x8000 ? -1 : 1, exponent = (code >> 10) & 31, fraction = code & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
}

// The names of the codes 0, 1, ... where the meaning of a port lists them, as in "0 allocate, 1 recycle".
function listed(meaning) {
  const items = meaning.split(/[,;] /).map((part) => /^(\d+) ([^,;]+)$/.exec(part));
  const whole = items.length > 1 && items.every((item, at) => item && Number(item[1]) === at);
  return whole ? items.map((item) => item[2]) : [];
}

// The value of a port's code as text, without fields if there are many lanes.
function valueOf(code, port) {
  if (port.kind === "f16") return digits(float16(Number(code)), 5);
  if (port.kind === "f32") { view.setUint32(0, Number(code)); return digits(view.getFloat32(0), 7); }
  const known = data.codes[port.kind];
  if (known) return known[Number(code)][port.lanes > 2 ? 1 : 0];
  const value = port.signed ? BigInt.asIntN(port.bits, code) : code;
  if (port.names === undefined) port.names = listed(port.meaning);
  return String(value) + (port.names[Number(value)] ? " " + port.names[Number(value)] : "");
}

// Run lengths: texts of lanes, four or more equal ones as "8 x 0".
function runs(texts) {
  const parts = [];
  for (let at = 0; at < texts.length;) {
    let end = at;
    while (end < texts.length && texts[end] === texts[at]) end += 1;
    if (end - at > 3) parts.push((end - at) + " \u00d7 " + texts[at]);
    else for (let place = at; place < end; place += 1) parts.push(texts[place]);
    at = end;
  }
  return parts;
}

// A name that may break after its underscores, hyphens and slashes.
function broken(name) {
  const made = document.createDocumentFragment();
  for (const part of name.split(/(?<=[_/-])/)) made.append(part, document.createElement("wbr"));
  return made;
}
