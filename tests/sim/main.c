/* The simulator's command line: seeds, sweeps, one child process each, so that a failed assertion or a sanitizer's report is told with its seed, too. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/log.h"
#include "tests/sim/run.h"
#include "tests/sim/sweep.h"

struct job {
    struct sim_options opt;
    const char *sweep;        /* NULL: one seed */
    uint64_t at, stride;
    bool twice;               /* run it two times: the event hash must be the same */
    unsigned limit_s;         /* of real time, for one child */
};

struct result {
    struct sim_stats stats;
    uint64_t hash;
};

void sim_hash(struct sim_run *r, uint64_t value)
{
    r->hash = sim_mix(r->hash * 3 + value + 1);
}

void sim_note(struct sim_run *r, const char *fmt, ...)
{
    va_list args;

    if (!r->opt.verbose)
        return;
    fprintf(stderr, "%6llu %9.3f s  ", (unsigned long long)r->op_count, (double)sfs_env_mono_ns(r->env) / 1e9);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

void sim_fail(struct sim_run *r, const char *fmt, ...)
{
    va_list args;

    fflush(stderr);
    printf("FAIL seed=%llu op=%llu: ", (unsigned long long)r->opt.seed, (unsigned long long)r->op_count);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("; replay: %s\n", r->opt.replay);
    fflush(stdout);
    _exit(1);
}

static void log_line(enum sfs_log_level level, const char *text, void *ctx)
{
    (void)level;
    if (sim_run_current())
        sim_log_line(sim_run_current(), text);
    if (*(bool *)ctx)
        fprintf(stderr, "                      log: %s\n", text);
}

/* --- one child ------------------------------------------------------------------------------------------------------------------------------ */

static void run_job(struct job *j, struct result *res)
{
    struct result again;

    memset(res, 0, sizeof(*res));
    if (j->sweep) {
        sim_sweep(j->sweep, &j->opt, j->at, j->stride, j->at > 0, &res->stats);
        return;
    }
    sim_run(&j->opt, &res->stats, &res->hash);
    if (!j->twice)
        return;
    sim_run(&j->opt, &again.stats, &again.hash);
    if (again.hash != res->hash) {
        printf("FAIL seed=%llu op=0: it ran in two ways: %016llx, %016llx; replay: %s\n", (unsigned long long)j->opt.seed,
               (unsigned long long)res->hash, (unsigned long long)again.hash, j->opt.replay);
        fflush(stdout);
        _exit(1);
    }
}

/* 0, or 1 when it failed; it has said so. */
static int run_child(struct job *j, struct result *res)
{
    int fds[2], status = 0;
    ssize_t got;
    pid_t pid;

    memset(res, 0, sizeof(*res));
    if (pipe(fds) < 0 || (pid = fork()) < 0) {
        perror("sim");
        return 1;
    }
    if (pid == 0) {
        close(fds[0]);
        alarm(j->limit_s);
        run_job(j, res);
        if (write(fds[1], res, sizeof(*res)) != (ssize_t)sizeof(*res))
            _exit(1);
        exit(0);
    }
    close(fds[1]);
    got = read(fds[0], res, sizeof(*res));
    close(fds[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && got == (ssize_t)sizeof(*res))
        return 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) {
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            printf("FAIL seed=%llu op=?: it did not end within %u s; replay: %s\n", (unsigned long long)j->opt.seed, j->limit_s, j->opt.replay);
        else
            printf("FAIL seed=%llu op=?: it ended with %s %d; replay: %s\n", (unsigned long long)j->opt.seed,
                   WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), j->opt.replay);
        fflush(stdout);
    }
    return 1;
}

static int run_seed(struct job *j, uint64_t seed, const char *extra, struct sim_stats *total, bool quiet)
{
    struct result res;

    j->opt.seed = seed;
    snprintf(j->opt.replay, sizeof(j->opt.replay), "sim --seed %llu%s", (unsigned long long)seed, extra);
    if (run_child(j, &res) != 0)
        return 1;
    if (!quiet)
        printf("seed %llu: ok, %llu operations, %llu I/Os, events %016llx\n", (unsigned long long)seed, (unsigned long long)res.stats.ops,
               (unsigned long long)res.stats.ios, (unsigned long long)res.hash);
    fflush(stdout);
    sim_stats_add(total, &res.stats);
    return 0;
}

/* --- many ------------------------------------------------------------------------------------------------------------------------------------ */

static void print_stats(const struct sim_stats *s, uint64_t runs, unsigned failed)
{
    printf("%llu runs, %u failed: %llu operations, %llu I/Os, %llu crashes, %llu kills, %llu clean ends, %llu crashes in recovery, "
           "%llu faults, %llu heals, %llu checks (%llu files, %llu MiB), %llu losses of disks tried",
           (unsigned long long)runs, failed, (unsigned long long)s->ops, (unsigned long long)s->ios, (unsigned long long)s->crashes,
           (unsigned long long)s->kills, (unsigned long long)s->closes, (unsigned long long)s->recoveries, (unsigned long long)s->faults,
           (unsigned long long)s->heals, (unsigned long long)s->checks, (unsigned long long)s->files_checked,
           (unsigned long long)(s->bytes_checked >> 20), (unsigned long long)s->losses_checked);
    if (s->points)
        printf(", %llu points swept", (unsigned long long)s->points);
    printf("\n");
}

static void usage(FILE *f)
{
    fprintf(f, "usage: sim --seed N [--ops N] [--epochs N] [--no-faults] [--twice] [--verbose]\n"
               "       sim --from A --to B [options]      all seeds from A to B\n"
               "       sim --seconds S [options]          fresh seeds for that long\n"
               "       sim --sweep KIND [--seed N] [--ops N] [--stride N] [--at N]\n"
               "--limit S: real time that one seed may take. Kinds of sweep:\n");
    sim_sweep_list(f);
}

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

struct args {
    struct job job;
    uint64_t from, to;
    double seconds;
    bool ranged, list;
    char extra[100];
};

static bool parse(int argc, char **argv, struct args *a)
{
    static const struct option options[] = {
        {"seed", 1, NULL, 's'},    {"from", 1, NULL, 'f'},   {"to", 1, NULL, 't'},        {"seconds", 1, NULL, 'S'}, {"ops", 1, NULL, 'o'},
        {"epochs", 1, NULL, 'e'},  {"sweep", 1, NULL, 'w'},  {"at", 1, NULL, 'a'},        {"stride", 1, NULL, 'n'},  {"limit", 1, NULL, 'l'},
        {"no-faults", 0, NULL, 'F'}, {"twice", 0, NULL, '2'}, {"verbose", 0, NULL, 'v'}, {"help", 0, NULL, 'h'},    {0},
    };
    size_t used = 0;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        unsigned long long n = optarg ? strtoull(optarg, NULL, 10) : 0;

        switch (c) {
        case 's': a->from = a->to = n; a->ranged = true; break;
        case 'f': a->from = n; a->ranged = true; break;
        case 't': a->to = n; a->ranged = true; break;
        case 'S': a->seconds = (double)n; break;
        case 'o': a->job.opt.ops = (unsigned)n; used += (size_t)snprintf(a->extra + used, sizeof(a->extra) - used, " --ops %llu", n); break;
        case 'e': a->job.opt.epochs = (unsigned)n; used += (size_t)snprintf(a->extra + used, sizeof(a->extra) - used, " --epochs %llu", n); break;
        case 'w': a->job.sweep = optarg; break;
        case 'a': a->job.at = n; break;
        case 'n': a->job.stride = n ? n : 1; break;
        case 'l': a->job.limit_s = (unsigned)n; break;
        case 'F': a->job.opt.no_faults = true; used += (size_t)snprintf(a->extra + used, sizeof(a->extra) - used, " --no-faults"); break;
        case '2': a->job.twice = true; break;
        case 'v': a->job.opt.verbose = true; break;
        default: return false;
        }
        if (used >= sizeof(a->extra))
            return false;
    }
    return optind == argc && (!a->job.sweep || sim_sweep_known(a->job.sweep)) && (a->ranged || a->seconds > 0 || a->job.sweep) &&
           a->from <= a->to;
}

int main(int argc, char **argv)
{
    struct args a = {.job = {.stride = 1, .limit_s = 600}};
    struct sim_stats total = {0};
    unsigned failed = 0;
    uint64_t runs = 0;
    double end;

    if (!parse(argc, argv, &a)) {
        usage(stderr);
        return 2;
    }
    sfs_log_set_sink(log_line, &a.job.opt.verbose);
    if (a.job.sweep) {
        failed = (unsigned)run_seed(&a.job, a.from, "", &total, true);
        print_stats(&total, 1, failed);
        return failed ? 1 : 0;
    }
    for (uint64_t seed = a.from; a.ranged && seed <= a.to && failed < 20; seed++, runs++)
        failed += (unsigned)run_seed(&a.job, seed, a.extra, &total, false);
    for (end = now_s() + a.seconds; now_s() < end && failed < 20; runs++) {
        uint64_t seed = 0;

        if (getrandom(&seed, 5, 0) != 5)
            return 2;
        failed += (unsigned)run_seed(&a.job, seed, a.extra, &total, false);
    }
    print_stats(&total, runs, failed);
    return failed ? 1 : 0;
}
