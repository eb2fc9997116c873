#!/bin/bash
# A PostgreSQL cluster on a space: pgbench, with the server killed, and with the daemon killed under it. Each time it recovers; every transaction that a client was
# told of is there, the books balance (the sum over accounts, tellers and branches), and pg_amcheck finds nothing.
. "$(dirname "$0")/../mount/lib.sh"
require_fuse
require_root
bin=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | tail -n 1)
[ -n "$bin" ] || skip "needs postgresql"
require_tool pgbench setpriv
id postgres > /dev/null 2>&1 || skip "needs the user postgres"

chmod 755 "$T"
small_pool --compression zstd
mkdir -m 700 m/pg
chown postgres m/pg
mkdir sock
chown postgres sock
as_postgres() { setpriv --reuid postgres --regid "$(id -g postgres)" --init-groups env LC_ALL=C "$@"; }
start() { rm -f m/pg/postmaster.pid sock/.s.*;  as_postgres "$bin/pg_ctl" -D "$T/m/pg" -w -t 120 -l "$T/sock/log" -o "-k $T/sock -h '' -c fsync=on -c full_page_writes=on -c max_wal_size=64MB -c checkpoint_timeout=30s" start > /dev/null; }
sql() { as_postgres psql -h "$T/sock" -qAtX -d "${2:-postgres}" -c "$1"; }
as_postgres "$bin/initdb" -D "$T/m/pg" --data-checksums > said 2>&1 || { cat said; fail initdb; }
start
sql "create database bench"
as_postgres pgbench -h "$T/sock" -q -i -s 3 bench > said 2>&1 || { cat said; fail "pgbench -i"; }
# kill -9 for the server and all its processes: they work in its directory.
servers() {
    local pid
    for pid in $(pgrep -u postgres || true); do
        case $(readlink "/proc/$pid/cwd") in "$T"/m/pg*) echo "$pid" ;; esac
    done
}
no_server() { [ -z "$(servers)" ]; }
end_server() {
    local pid
    for pid in $(servers); do kill -9 "$pid" 2> /dev/null || true; done
    within 20 no_server
}
on_exit+=(end_server)
load() { # SECONDS
    # history gets a row in each transaction; what the log says is acknowledged
    (cd sock && as_postgres pgbench -h "$T/sock" -n -c 4 -j 2 -T "$1" -l --log-prefix="acked.$2" bench > "$T/pgbench.$2" 2>&1) || true
}
balanced() {
    local sums
    sums=$(sql "select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), (select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)" bench)
    is "$(tr '|' '\n' <<< "$sums" | sort -u | wc -l)" 1 "the books ($sums)"
    rows=$(sql "select count(*) from pgbench_history" bench)
    acked=$(cat sock/acked.* | wc -l)
    [ "$rows" -ge "$acked" ] || fail "$rows transactions are there, $acked were acknowledged"
    say "$1: $acked transactions acknowledged, $rows there"
}
load 8 a
balanced "at ease"
load 20 b &
sleep 5
end_server
wait
start
balanced "after the server was killed"
for round in c d; do
    load 20 $round &
    sleep 5
    kill_daemon "$(daemon_of p)"
    end_server
    wait
    spacesfs mount p/s m
    start
    balanced "after the daemon was killed"
done
sql "vacuum full" bench
sql "checkpoint"
as_postgres "$bin/pg_amcheck" -h "$T/sock" --install-missing bench > said 2>&1 || { cat said; fail "pg_amcheck"; }
as_postgres "$bin/pg_ctl" -D "$T/m/pg" -m fast -w stop > /dev/null
as_postgres "$bin/pg_checksums" -D "$T/m/pg" --check > said 2>&1 || { cat said; fail "pg_checksums"; }
spacesfs umount m
