# sh ports.sh LOG: translates a simulator's messages about the core's connections, and says how to map them. Exit code 1
# if something does not fit; the simulator reports other errors of the build itself.
awk -v quote="'" '
function quoted(text,  parts) { gsub(/`/, quote, text); gsub(quote quote, quote, text); split(text, parts, quote); return parts[2] }
function say(text) { if (!(text in said)) { said[text] = 1; lines[++count] = text } }
function absent(name) { if (!(name in unknown)) { unknown[name] = 1; order[++unknowns] = name } }
function missing(name) {
  say("your input " name " is not connected; give it a port of refemu or a constant: \"inputs\": {\"" name "\": ...} in map.json, make MAP=map.json")
}
/(^|[^A-Za-z0-9_])shell(_[a-z0-9_]+)?\.v:[0-9]+.*is not a port of/ || /PINNOTFOUND.*(^|[^A-Za-z0-9_])shell(_[a-z0-9_]+)?\.v:.*Pin not found/ {
  ports[quoted($0)] = 1
  say("your module has no port " quoted($0) "; give the name it has under \"clock\", \"reset\", \"handshake\", \"inputs\", \"outputs\" or \"open\" of map.json (null for a clock, reset or ready that it lacks), make MAP=map.json")
}
/(^|[^A-Za-z0-9_])shell(_[a-z0-9_]+)?\.v:[0-9]+.*dangling input port/ { name = $0; sub(/.*\(/, "", name); sub(/\).*/, "", name); missing(name) }
/PINMISSING.*(^|[^A-Za-z0-9_])shell(_[a-z0-9_]+)?\.v:/ { pin = quoted($0); next }
pin != "" && declared {
  split($0, parts, "|"); text = $0; sub(/^[^|]*\|/, "", text); at = 0
  # the direction is the last keyword before the name; a line without one continues the line before, assumed to be an input
  if (match(text, "(^|[^A-Za-z0-9_])" pin "([^A-Za-z0-9_]|$)")) at = RSTART
  before = at ? substr(text, 1, at) : text; way = "input"
  while (match(before, /(input|output|inout)[^A-Za-z0-9_]/)) { way = substr(before, RSTART, RLENGTH - 1); before = substr(before, RSTART + RLENGTH) }
  if (way != "output") missing(pin)
  pin = ""; declared = 0
}
pin != "" && /Location of port declaration/ { declared = 1 }
/(^|[^A-Za-z0-9_])shell(_[a-z0-9_]+)?\.v:[0-9]+.*parameter .* not found in/ { name = $0; sub(/.*parameter /, "", name); sub(/ not found.*/, "", name); say("your module has no parameter " name "; correct \"parameters\" in map.json") }
/(^|[^A-Za-z0-9_])shell(_[a-z0-9_]+)?\.v:.*Parameter (pin )?not found/ { say("your module has no parameter " quoted($0) "; correct \"parameters\" in map.json") }
/(^|[^A-Za-z0-9_])shell(_[a-z0-9_]+)?\.v:.*Unable to bind/ || /(^|[^A-Za-z0-9_])shell(_[a-z0-9_]+)?\.v:.*Can.t find definition of/ {
  text = $0; sub(/Can.t/, "Cannot", text)
  absent(quoted(text))
}
/(^|[^A-Za-z0-9_])shell(_[a-z0-9_]+)?\.v:.*Unknown module type/ { modules = 1; name = $0; sub(/.*: /, "", name); say("your sources have no module " name "; name yours: make TOP=..., or \"top\" in map.json") }
/(^|[^A-Za-z0-9_])shell(_[a-z0-9_]+)?\.v:.*([Cc]annot find file containing module|refers to missing module)/ { modules = 1; say("your sources have no module " quoted($0) "; name yours: make TOP=..., or \"top\" in map.json") }
END {
  # consequences of a missing port or module are not reported
  for (at = 1; at <= unknowns && !modules; at++) if (!(order[at] in ports))
    say("your module has no " order[at] "; correct \"outputs\" or \"registers\" in map.json")
  for (at = 1; at <= count; at++) print "FAIL the ports do not fit: " lines[at]
  exit count > 0
}
' "$1" >&2
