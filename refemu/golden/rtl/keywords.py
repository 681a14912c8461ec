"""Names that no port may have, since RTL and C use the names of the descriptor."""

import re
from collections.abc import Sequence

from refemu.arith.checks import Refused


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: ISO/IEC 9899:2024, without those that begin with an underscore
C = _words("""
alignas alignof auto bool break case char const constexpr continue default do double else enum extern false float for
goto if inline int long nullptr register restrict return short signed sizeof static static_assert struct switch
thread_local true typedef typeof typeof_unqual union unsigned void volatile while
""")

#: IEEE 1800-2017, Annex B; Verilog's are among them
SYSTEMVERILOG = _words("""
accept_on alias always always_comb always_ff always_latch and assert assign assume automatic before begin bind bins
binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking cmos config const
constraint context continue cover covergroup coverpoint cross deassign default defparam design disable dist do edge
else end endcase endchecker endclass endclocking endconfig endfunction endgenerate endgroup endinterface endmodule
endpackage endprimitive endprogram endproperty endsequence endspecify endtable endtask enum event eventually expect
export extends extern final first_match for force foreach forever fork forkjoin function generate genvar global highz0
highz1 if iff ifnone ignore_bins illegal_bins implements implies import incdir include initial inout input inside
instance int integer interconnect interface intersect join join_any join_none large let liblist library local
localparam logic longint macromodule matches medium modport module nand negedge nettype new nexttime nmos nor
noshowcancelled not notif0 notif1 null or output package packed parameter pmos posedge primitive priority program
property protected pull0 pull1 pulldown pullup pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase
randsequence rcmos real realtime ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1
s_always s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal showcancelled signed small
soft solve specify specparam static string strong strong0 strong1 struct super supply0 supply1 sync_accept_on
sync_reject_on table tagged task this throughout time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand
trior trireg type typedef union unique unique0 unsigned until until_with untyped use uwire var vectored virtual void
wait wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor
""")

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def require_names(names: Sequence[str], thing: str) -> None:
    """Reject names that are not lower-case words, are keywords of Verilog, SystemVerilog or C, or occur twice.

    thing: start of the message.
    """
    for position, name in enumerate(names):
        if not _NAME.fullmatch(name):
            raise Refused(f"{thing}: a port name must be a lower-case word, got {name!r}")
        if name in SYSTEMVERILOG or name in C:
            language = "SystemVerilog" if name in SYSTEMVERILOG else "C"
            raise Refused(f"{thing}: a port name must not be a keyword of {language}, got {name!r}")
        if name in names[:position]:
            raise Refused(f"{thing}: port names must differ, got {name!r} twice")
