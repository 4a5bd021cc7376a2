# awk -f known-chains.awk CHAINS SCRIPT: prints two numbers for the stacks in SCRIPT (tare script -F
# ip,sym,dso): how many equal one of the call chains in CHAINS (the output of `known --chains`), and
# how many stacks there are. Ignores stacks of the dynamic linker and of a runtime's own threads
# (lines `apart NAME`), frames whose name is in no chain, and frames of a signal handler (lines
# `inner NAMES`) before a chain. With -v ends=1 and lines `end NAME`, the outermost frame must
# be one of these. -v show=N prints the first N other stacks.
function judge(    at, from, text) {
    if (frames == 0) return
    if (first !~ /\/ld-linux|\/ld-musl/ && !(kept == 0 && is_apart)) {
        all++
        from = 1
        for (at in inner) if (starts(inner[at], 1) > from) from = starts(inner[at], 1)
        text = ""
        for (at = from; at <= kept; at++) text = text " " name[at]
        if (text in chain && (!ends || !has_ends || outermost in end)) good++
        else if (shown++ < show) print "other:" (from > 1 ? " (in a handler)" : "") text " of " whole
    }
    frames = kept = is_apart = 0; whole = ""
}
# Index of the first frame after these names; 0 if the stack doesn't begin with them.
function starts(names, at,    words, count, word) {
    count = split(names, words, " ")
    for (word = 1; word <= count; word++) if (name[word] != words[word] || word > kept) return 0
    return count + 1
}
FNR == NR {
    text = ""
    for (at = 2; at <= NF; at++) { known[$at] = 1; text = text " " $at }
    if ($1 == "end") { end[$2] = has_ends = 1; delete known[$2]; next }
    if ($1 == "apart") { apart[$2] = 1; delete known[$2]; next }
    if ($1 == "inner") inner[++inners] = substr(text, 2); else chain[text] = 1
    next
}
NF == 0 { judge(); next }
{
    frames++
    if (frames == 1) first = $NF
    sub(/\.cold$/, "", $2) # the compiler puts rarely executed parts of a function elsewhere
    whole = whole " " $2
    outermost = $2
    if ($2 in apart) is_apart = 1
    if ($2 in known) name[++kept] = $2
}
END { judge(); print good + 0, all + 0 }
