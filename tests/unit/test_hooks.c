/* Hooks: which are run, with what, for how long, and what is said of bad ones. Real processes. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/daemon/hooks.h"

#define MS 1000000ull

static struct sfs_env *env;
static struct sfs_hooks *hooks;
static char dir[64], out[80];
static char said[16][600];
static unsigned nsaid;

static void on_report(void *ctx, const char *hook, const char *text)
{
    (void)ctx;
    cr_assert_lt(nsaid, 16);
    snprintf(said[nsaid++], sizeof(said[0]), "%.200s %s", hook, text);
}

static void begin(uint64_t timeout_ns)
{
    struct sfs_hooks_opts o = {.dir = dir, .timeout_ns = timeout_ns, .end_ns = 20000 * MS, .report = on_report};
    snprintf(dir, sizeof(dir), "/tmp/sfs-hooks.XXXXXX");
    cr_assert(mkdtemp(dir));
    snprintf(out, sizeof(out), "%s.out", dir);
    env = sfs_env_new_real();
    cr_assert_eq(sfs_hooks_start(env, &o, &hooks), 0);
}

/* $OUT in a script stands for the file that end() looks at. */
static void script(const char *name, mode_t mode, const char *text)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fprintf(f, "#!/bin/sh\nOUT=%s\n%s\n", out, text);
    fclose(f);
    cr_assert_eq(chmod(path, mode), 0);
}

static void happen(const char *kind, const char *text)
{
    struct sfs_event_row e = {.time = 86400};
    snprintf(e.kind, sizeof(e.kind), "%s", kind);
    snprintf(e.severity, sizeof(e.severity), "error");
    snprintf(e.subject, sizeof(e.subject), "d1");
    snprintf(e.text, sizeof(e.text), "%s", text);
    sfs_hooks_event(hooks, "tank", &e);
}

/* Waits until all has run. What the scripts wrote. */
static char *end(void)
{
    static char got[8192];
    sfs_hooks_stop(hooks);
    happen("disk-lost", "too late, and no harm");
    sfs_hooks_free(hooks);
    sfs_env_free(env);
    FILE *f = fopen(out, "r");
    size_t n = f ? fread(got, 1, sizeof(got) - 1, f) : 0;
    got[n] = 0;
    if (f)
        fclose(f);
    char cmd[200];
    snprintf(cmd, sizeof(cmd), "rm -rf %s %s", dir, out);
    cr_assert_eq(system(cmd), 0);
    return got;
}

Test(hooks, run_in_order_with_the_event_and_nothing_else)
{
    setenv("SECRET", "x", 1);
    begin(0);
    script("20-second", 0755, "echo second $1 >> $OUT; env | sort | grep -v -e ^PWD -e ^_ -e ^SHLVL -e ^OLDPWD >> $OUT");
    script("10-first", 0700, "echo first >> $OUT; cat >> $OUT; pwd >> $OUT");
    script("30-off.disabled", 0755, "echo off >> $OUT");
    script("40-edited~", 0755, "echo edited >> $OUT");
    happen("disk-lost", "disk d1 is \"out\" of use");
    happen("space-created", "nobody is told");
    char *got = end();
    cr_assert_str_eq(got, "first\n"
                          "{\"pool\":\"tank\",\"event\":\"disk-failed\",\"kind\":\"disk-lost\",\"severity\":\"error\",\"subject\":\"d1\",\"text\":\"disk d1 is \\\"out\\\" of use\",\"time\":86400}\n"
                          "/\n"
                          "second disk-failed\n"
                          "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
                          "SPACESFS_EVENT=disk-failed\n"
                          "SPACESFS_KIND=disk-lost\n"
                          "SPACESFS_POOL=tank\n"
                          "SPACESFS_SEVERITY=error\n"
                          "SPACESFS_SUBJECT=d1\n"
                          "SPACESFS_TEXT=disk d1 is \"out\" of use\n"
                          "SPACESFS_TIME=1970-01-02T00:00:00Z\n");
    cr_assert_eq(nsaid, 0, "%s", said[0]);
}

Test(hooks, bad_ones_are_reported_once_and_stop_no_others)
{
    begin(0);
    script("10-fails", 0755, "echo; echo no mail today >&2; echo more >&2; exit 3");
    script("20-plain", 0644, "echo plain >> $OUT");
    script("30-anybody", 0777, "echo anybody >> $OUT");
    script("40-good", 0755, "echo good >> $OUT");
    script("50-flaps", 0755, "if [ -e $OUT.x ]; then rm $OUT.x; exit 0; else touch $OUT.x; exit 1; fi");
    script("60-killed", 0755, "kill -9 $$");
    char path[200];
    snprintf(path, sizeof(path), "%s/15-noshebang", dir);
    FILE *f = fopen(path, "w");
    fputs("\1\2\3", f);
    fclose(f);
    cr_assert_eq(chmod(path, 0755), 0);
    for (unsigned i = 0; i < 3; i++)
        happen("damage", "x");
    cr_assert_str_eq(end(), "good\ngood\ngood\n");
    cr_assert_eq(nsaid, 7);
    unsigned seen = 0;
    for (unsigned i = 0; i < nsaid; i++) {
        seen |= !strcmp(said[i], "10-fails ended with 3: no mail today") ? 1 : 0;
        seen |= !strncmp(said[i], "15-noshebang could not be started: Exec format error", 50) ? 2 : 0;
        seen |= strstr(said[i], "20-plain is not run: it is not executable") ? 4 : 0;
        seen |= strstr(said[i], "30-anybody is not run: it must belong to") ? 8 : 0;
        seen |= !strncmp(said[i], "60-killed was ended by signal 9", 31) ? 16 : 0;
    }
    cr_assert_eq(seen, 31, "%x", seen); /* and 50-flaps twice: it had worked in between */
}

Test(hooks, that_hang_are_ended_with_their_children)
{
    begin(400 * MS);
    script("10-hangs", 0755, "trap '' TERM; sleep 1000 & echo $! > $OUT.pid; echo waiting; wait; sleep 1000");
    script("20-good", 0755, "echo good >> $OUT");
    script("30-leaves", 0755, "sleep 1000 & exit 0");
    happen("heal-done", "x");
    cr_assert_str_eq(end(), "good\n");
    cr_assert_eq(nsaid, 1);
    cr_assert_str_eq(said[0], "10-hangs took too long, and was ended: waiting");
    char name[100];
    int pid = 0;
    snprintf(name, sizeof(name), "%s.pid", out);
    FILE *f = fopen(name, "r");
    cr_assert(f && fscanf(f, "%d", &pid) == 1);
    fclose(f);
    unlink(name);
    for (unsigned i = 0; i < 100 && kill(pid, 0) == 0; i++)
        usleep(10000); /* a child of nobody: whoever reaps it may take a moment */
    char stat_path[64], state = 'Z';
    snprintf(stat_path, sizeof(stat_path), "/proc/%d/stat", pid);
    f = fopen(stat_path, "r");
    if (f) {
        cr_assert_eq(fscanf(f, "%*d %*s %c", &state), 1);
        fclose(f);
    }
    cr_assert_eq(state, 'Z');
}

Test(hooks, that_print_a_lot_never_wait_for_us)
{
    begin(20000 * MS);
    script("10-talks", 0755, "yes word | head -n 200000; echo done >> $OUT");
    happen("full-90", "x");
    cr_assert_str_eq(end(), "done\n");
    cr_assert_eq(nsaid, 0);
}

Test(hooks, of_a_directory_that_anybody_may_write_to_are_not_run)
{
    begin(0);
    script("10-bad", 0755, "echo bad >> $OUT");
    cr_assert_eq(chmod(dir, 0777), 0);
    happen("damage", "x");
    happen("damage", "x");
    cr_assert_str_eq(end(), "");
    cr_assert_eq(nsaid, 1);
    cr_assert(strstr(said[0], "the directory must belong to"));
}

Test(hooks, too_many_events_at_once_are_dropped_and_nobody_waits)
{
    begin(0);
    script("10-slow", 0755, "sleep 0.02; echo x >> $OUT");
    for (unsigned i = 0; i < 1000; i++)
        happen("damage", "x");
    size_t lines = strlen(end()) / 2;
    cr_assert(lines >= 64 && lines < 1000, "%zu", lines);
}
