/* spacesfs-check, fsck.spacesfs and fsck.fuse.spacesfs: checks and repairs a pool that is not mounted.
 *
 *   spacesfs-check [-n|-p|-y] [--data] [--json] POOL|DISK... */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/check_extract.h"
#include "cli/check_report.h"
#include "cli/ui.h"
#include "fs/base/log.h"
#include "fs/check/check.h"
#include "fs/pool/registry.h"

static const char usage[] =
    "usage: spacesfs-check [-n|-p|-y] [--data] [--json] POOL|DISK...\n"
    "       spacesfs-check --snapshots POOL|DISK...\n"
    "       spacesfs-check --restore NAME [-y] POOL|DISK...\n"
    "       spacesfs-check --extract --to DIR POOL|DISK...\n"
    "\n"
    "Checks a pool that is not mounted, and repairs it. Without an option it asks\n"
    "before it changes anything.\n"
    "\n"
    "  -n, --no          change nothing, only say what is wrong\n"
    "  -p, -a, --preen   mend what can be mended without losing anything\n"
    "  -y, --yes         mend everything that can be mended\n"
    "  -f, -r, -v, -C[FD]  accepted and ignored, for fsck(8): every check is a full one\n"
    "      --data        read and verify every copy of all data, too\n"
    "      --snapshots   list the snapshots of the catalog, and what repairs have saved\n"
    "      --restore NAME  go back to one of them\n"
    "      --extract     copy what can be read out of the disks, changing nothing on them\n"
    "      --to DIR      where --extract copies to\n"
    "      --json        print the result as JSON\n"
    "  -h, --help        show this help\n"
    "  -V, --version     show the version\n"
    "\n"
    "Exit status, as fsck(8): 0 nothing wrong, 1 mended, 4 something is wrong still,\n"
    "8 could not be checked, 16 used wrongly, 32 interrupted; sums of these.\n"
    "spacesfs-check(8) has a section on recovery.\n";

enum { OPT_DATA = 1000, OPT_SNAPSHOTS, OPT_RESTORE, OPT_EXTRACT, OPT_TO, OPT_JSON };

static const struct option long_options[] = {
    {"no", no_argument, NULL, 'n'},          {"preen", no_argument, NULL, 'p'},
    {"yes", no_argument, NULL, 'y'},         {"data", no_argument, NULL, OPT_DATA},
    {"snapshots", no_argument, NULL, OPT_SNAPSHOTS}, {"restore", required_argument, NULL, OPT_RESTORE},
    {"extract", no_argument, NULL, OPT_EXTRACT}, {"to", required_argument, NULL, OPT_TO},
    {"json", no_argument, NULL, OPT_JSON},   {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},     {NULL, 0, NULL, 0}};

struct args {
    struct sfs_check_opts opts;
    unsigned modes; /* how many were given */
    bool snapshots, extract, json;
    const char *to;
};

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct args *a)
{
    int c;
    a->opts.mode = SFS_CHECK_ASK;
    while ((c = getopt_long(argc, argv, "npyafrvC::hV", long_options, NULL)) != -1) {
        switch (c) {
        case 'n':
            a->opts.mode = SFS_CHECK_LOOK;
            a->modes++;
            break;
        case 'p':
        case 'a':
            a->opts.mode = SFS_CHECK_PREEN;
            a->modes++;
            break;
        case 'y':
            a->opts.mode = SFS_CHECK_ALL;
            a->modes++;
            break;
        case 'f':
        case 'r':
        case 'v':
        case 'C':
            break;
        case OPT_DATA:
            a->opts.data = true;
            break;
        case OPT_SNAPSHOTS:
            a->snapshots = true;
            break;
        case OPT_RESTORE:
            a->opts.restore = optarg;
            break;
        case OPT_EXTRACT:
            a->extract = true;
            break;
        case OPT_TO:
            a->to = optarg;
            break;
        case OPT_JSON:
            a->json = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'V':
            printf("spacesfs-check %s\n", SFS_VERSION);
            return 0;
        default:
            fputs("Try spacesfs-check --help.\n", stderr);
            return SFS_CHECK_USAGE;
        }
    }
    if (optind == argc)
        fputs("spacesfs-check: name a pool, or disks of one. Try spacesfs-check --help.\n", stderr);
    else if (a->modes > 1)
        fputs("spacesfs-check: only one of -n, -p and -y can be given.\n", stderr);
    else if (a->extract != (a->to != NULL))
        fputs("spacesfs-check: --extract and --to DIR belong together.\n", stderr);
    else if (a->snapshots + a->extract + (a->opts.restore != NULL) > 1)
        fputs("spacesfs-check: only one of --snapshots, --restore and --extract can be given.\n", stderr);
    else
        return -1;
    return SFS_CHECK_USAGE;
}

static bool is_pool(const char *state_dir, const char *name)
{
    struct sfs_registry_pool known;
    if (!state_dir || sfs_registry_load(state_dir, name, &known))
        return false;
    sfs_registry_free(&known);
    return true;
}

/* fsck(8) gives what stands in fstab's first field: POOL/SPACE, or a disk's path and /SPACE. A bare word is a pool's name, where there is such a pool, else a disk in this directory. */
static char *pool_of(const char *state_dir, const char *arg)
{
    char *copy = strdup(arg), *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash && slash != copy && access(copy, F_OK) != 0)
        *slash = '\0';
    if (!copy || strchr(copy, '/') || is_pool(state_dir, copy) || access(copy, F_OK) != 0)
        return copy;
    char *path = realpath(copy, NULL);
    free(copy);
    return path;
}

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
    (void)sig;
    interrupted = 1;
}

bool sfs_check_interrupted(void *ctx)
{
    (void)ctx;
    return interrupted != 0;
}

static void catch_signals(void)
{
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}

static int run(struct args *a, char **names, unsigned n)
{
    char state_dir[SFS_PATH_BYTES];
    struct sfs_env *env = sfs_env_new_real();
    a->opts.state_dir = sfs_registry_state_dir(state_dir, sizeof(state_dir)) ? NULL : state_dir;
    char *which = pool_of(a->opts.state_dir, names[0]);
    if (!env || !which) {
        fputs("spacesfs-check: out of memory\n", stderr);
        free(which);
        sfs_env_free(env);
        return SFS_CHECK_FAILED;
    }
    a->opts.search = (const char *const *)names + 1;
    a->opts.nsearch = n - 1;
    int status;
    if (a->extract)
        status = sfs_check_extract_main(env, which, &a->opts, a->to, a->json);
    else if (a->snapshots)
        status = sfs_check_snapshots_main(env, which, &a->opts, a->json);
    else
        status = sfs_check_report_main(env, which, &a->opts, a->json);
    free(which);
    sfs_env_free(env);
    return status;
}

static void log_to_stderr(enum sfs_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level == SFS_LOG_ERROR)
        fprintf(stderr, "spacesfs-check: %s\n", text);
}

int main(int argc, char **argv)
{
    struct args a = {.modes = 0};
    unsetenv("POSIXLY_CORRECT");
    sfs_ui_init();
    sfs_log_set_sink(log_to_stderr, NULL);
    int status = parse(argc, argv, &a);
    if (status >= 0)
        return status;
    if (a.opts.mode == SFS_CHECK_ASK && !a.snapshots && !a.extract && (a.json || !isatty(STDIN_FILENO))) {
        fputs("spacesfs-check: there is no terminal to ask on. Say what to do with -n (change nothing), -p (mend what is safe) or -y (mend everything).\n", stderr);
        return SFS_CHECK_FAILED;
    }
    catch_signals();
    status = run(&a, argv + optind, (unsigned)(argc - optind));
    if (fflush(stdout) == EOF || ferror(stdout)) {
        fputs("spacesfs-check: the output could not be written\n", stderr);
        status |= SFS_CHECK_FAILED;
    }
    return status;
}
