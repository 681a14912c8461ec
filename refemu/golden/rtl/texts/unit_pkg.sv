// $unit of refemu, $paper: packed structs, texts, transactions, a scoreboard and coverage.
// Golden set $set, sha256 $digest. Written by `refemu export sv`; docs/systemverilog-uvm.md describes it.
// The first port of a struct is in its lowest bits, lane 0 of a port in the port's lowest bits.
package refemu_${unit}_pkg;
  localparam string UNIT = "$unit";
  localparam string SET = "$set";
  localparam string SHA256 = "$digest";
  localparam longint ROWS = $rows;
  localparam int STIMULUS_BITS = $stimulus_bits;  // of a word of stim.mem$first_bit
  localparam int FLAGS = $flag_count;
  localparam int KINDS = $kind_count;
  localparam int DECISIONS = $decision_count;

$structs

  // A float of 16 or 32 bits as text, with enough digits to distinguish its neighbours.
  function automatic string float_text(logic [31:0] word, int fraction_bits, int exponent_bits, string form);
    int exponent, top, bias;
    longint fraction;
    real value;
    top = (1 << exponent_bits) - 1;
    bias = top >> 1;
    exponent = int'(word >> fraction_bits) & top;
    fraction = longint'(word) & ((64'd1 << fraction_bits) - 1);
    if (exponent == top) return fraction != 0 ? "nan" : word[fraction_bits + exponent_bits] ? "-inf" : "inf";
    value = real'(fraction);
    if (exponent != 0) value = value + real'(64'd1 << fraction_bits);
    else exponent = 1;
    for (int at = exponent - bias - fraction_bits; at > 0; at--) value = value * 2.0;
    for (int at = exponent - bias - fraction_bits; at < 0; at++) value = value / 2.0;
    if (word[fraction_bits + exponent_bits]) value = -value;
    return $$sformatf(form, value);
  endfunction

$texts

  // Inputs of a row, the golden model's outputs, and which of their bits count.
  class transaction;
    inputs_t  stimulus = '0;
    outputs_t want = '0;
    outputs_t care = '1;
    longint   row = 0;
    bit       first = 0;  // a case begins: the device was reset before it
    logic [7:0] flags = '0;
    int       kind = 0;
    int       decision = DECISIONS;  // DECISIONS: the row follows none

    virtual function string text();
      return $$sformatf("row %0d: in %s want %s", row, inputs_text(stimulus), outputs_text(want));
    endfunction
  endclass

  // Compares answers with transactions, in order (`push`, `check`) or by tag (`push_tagged`, `check_tagged`).
  class scoreboard;
    longint matched = 0, differing = 0, unexpected = 0;
    bit     verbose = 0;  // prints every difference, not only the first
    local transaction waiting_in_order[$$];
    local transaction waiting_by_tag[longint];

    virtual function void push(transaction item);
      waiting_in_order.push_back(item);
    endfunction

    // 0 if the tag is still in use; the transaction is then ignored.
    virtual function bit push_tagged(longint tag, transaction item);
      if (waiting_by_tag.exists(tag) != 0) return 0;
      waiting_by_tag[tag] = item;
      return 1;
    endfunction

    // Checks the next transaction's answer; 1 if it is right.
    virtual function bit check(outputs_t got);
      transaction item;
      if (waiting_in_order.size() == 0) return stray("no transaction waits for it");
      item = waiting_in_order.pop_front();
      return compared(item, got);
    endfunction

    virtual function bit check_tagged(longint tag, outputs_t got);
      transaction item;
      if (waiting_by_tag.exists(tag) == 0) return stray($$sformatf("no transaction has the tag %0d", tag));
      item = waiting_by_tag[tag];
      waiting_by_tag.delete(tag);
      return compared(item, got);
    endfunction

    virtual function longint waiting();
      return longint'(waiting_in_order.size()) + longint'(waiting_by_tag.num());
    endfunction

    // Whether there were answers, all of them right, and none is missing.
    virtual function bit passed();
      return matched > 0 && differing == 0 && unexpected == 0 && waiting() == 0;
    endfunction

    virtual function string verdict();
      return $$sformatf("%s %0d transactions of %s, sha256 %s: %0d differ, %0d unexpected answers, %0d without answer",
                       passed() ? "PASS" : "FAIL", matched, SET, SHA256, differing, unexpected, waiting());
    endfunction

    local function bit stray(string why);
      if (unexpected == 0 || verbose) $$display("FAIL an unexpected answer: %s", why);
      unexpected++;
      return 0;
    endfunction

    local function bit compared(transaction item, outputs_t got);
      if (((got ^ item.want) & item.care) === '0) begin
        matched++;
        return 1;
      end
      if (differing == 0 || verbose) begin
        $$display("FAIL %s", item.text());
$differences
      end
      differing++;
      return 0;
    endfunction
  endclass

  // Which bits of the outputs were 0, were 1, rose and fell where they count, and the number of rows with each flag, kind
  // of case and decision, as counted by `refemu grade` and the manifest.
  class coverage;
    longint   rows = 0;
    outputs_t zero = '0, one = '0, rising = '0, falling = '0;
    longint   of_flag[8], of_kind[KINDS + 1], of_decision[DECISIONS + 1];
    local outputs_t last, last_care;
    local bit some = 0;

    virtual function void sample(transaction item, outputs_t got);
      outputs_t both;
      zero |= ~got & item.care;
      one |= got & item.care;
      if (some$after_first) begin
        both = item.care & last_care;
        rising |= ~last & got & both;
        falling |= last & ~got & both;
      end
      last = got;
      last_care = item.care;
      some = 1;
      rows++;
      for (int bit_ = 0; bit_ < 8; bit_++) of_flag[bit_] += longint'(item.flags[bit_]);
      of_kind[item.kind]++;
      of_decision[item.decision]++;
    endfunction

    virtual function string json();
      string text;
      text = $$sformatf("{\"rows\": %0d, \"toggle\": {", rows);
$toggles
      text = {text, "}, \"flags\": {"};
$flags
      text = {text, "}, \"kinds\": {"};
$kinds
      text = {text, "}, \"decisions\": {"};
$decisions
      return {text, "}}"};
    endfunction
  endclass

`ifdef REFEMU_COVERGROUPS
  // For simulators with functional coverage. Verilator has none, so refemu's tests parse these but do not simulate them.
  class functional_coverage;
    covergroup answers with function sample(inputs_t stimulus, outputs_t got, logic [7:0] flags);
      option.per_instance = 1;
$coverpoints
    endgroup

    function new();
      answers = new();
    endfunction

    function void sample(transaction item, outputs_t got);
      answers.sample(item.stimulus, got, item.flags);
    endfunction
  endclass
`endif
endpackage
