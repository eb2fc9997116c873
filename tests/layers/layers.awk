# awk -f layers.awk rules FILE...: prints every #include that breaks a rule; exit 1 if there is one, 2 if the rules are broken.
function place_of(file,    p) {              # the layer a file belongs to: its folder
    p = file
    sub(/\/[^\/]*$/, "", p)
    return p
}
function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    bad++
}
function own(header,    at, target, i) {
    target = place_of(header)
    if (header !~ /\//) {
        complain("\"" header "\": include by the path from the root")
        return
    }
    if (!(target in layer)) {
        if (target !~ /^tests(\/|$)/ || at_layer)
            complain("\"" header "\" is in no layer known to tests/layers/rules")
        return
    }
    if (!at_layer)
        return                               # tests may use everything
    if (target != here && !((here, target) in may))
        complain("\"" header "\": " here " may not use " target)
    if (target != here)
        for (i = 1; i <= nprivate; i++)
            if (substr(header, length(header) - length(private[i]) + 1) == private[i])
                complain("\"" header "\" is private to " target)
}
function foreign(header,    i, j, n, places, fits) {
    for (i = 1; i <= nonly; i++) {
        if (index(header, only[i]) != 1)
            continue
        n = split(only_places[i], places, " ")
        fits = 0
        for (j = 1; j <= n; j++)
            if (FILENAME == places[j] || index(FILENAME, places[j] "/") == 1)
                fits = 1
        if (!fits && (at_layer || only[i] == "sqlite3" || index(only[i], "fuse") == 1))
            complain("<" header "> belongs in " only_places[i] " only")
    }
}
FNR == 1 {
    nfile++
    here = place_of(FILENAME)
    at_layer = here in layer
    if (nfile > 1 && !at_layer && here !~ /^tests\//)
        complain(here " is no layer known to tests/layers/rules")
}
nfile == 1 {
    if ($1 == "layer") { layer[$2] = 1; for (i = 3; i <= NF; i++) may[$2, $i] = 1 }
    else if ($1 == "private") private[++nprivate] = $2
    else if ($1 == "only") { only[++nonly] = $2; only_places[nonly] = $3; for (i = 4; i <= NF; i++) only_places[nonly] = only_places[nonly] " " $i }
    else if (NF && $1 !~ /^#/) { print "rules: " $0; exit broken = 2 }
    next
}
/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    match($0, /["<][^">]*/)
    header = substr($0, RSTART + 1, RLENGTH - 1)
    ninclude++
    if (substr($0, RSTART, 1) == "\"") own(header)
    else if (header ~ /^(fs|meta|cli)\//) complain("<" header ">: our own headers take quotes")
    else foreign(header)
}
END {
    if (broken) exit broken
    if (nfile < 2 || !ninclude) { print "no includes seen: nothing was tested"; exit 2 }
    printf "%d files, %d includes, %d against the order\n", nfile - 1, ninclude, bad
    exit bad ? 1 : 0
}
