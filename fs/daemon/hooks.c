#include "fs/daemon/hooks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/log.h"
#include "fs/daemon/control_impl.h"
#include "fs/daemon/hook_run.h"

#define QUEUE_MAX 64u
#define HOOKS_MAX 32u
#define BAD_MAX 64u
#define TIMEOUT_NS 30000000000ull
#define END_NS 5000000000ull

/* Which events hooks are run for, and what they are called there. */
static const struct {
    const char *kind, *name;
} names[] = {
    {"disk-lost", "disk-failed"},     {"disk-missing", "disk-failed"}, {"disk-retired", "disk-failed"},
    {"degraded", "degraded"},         {"heal-done", "healed"},         {"redundancy-restored", "healed"},
    {"heal-incomplete", "heal-stuck"}, {"damage", "damage"},           {"data-missing", "damage"},
    {"data-unreadable", "damage"},    {"full-70", "full"},             {"full-80", "full"},
    {"full-90", "full"},              {"full-95", "full"},             {"pool-readonly", "read-only"},
};

struct item {
    char pool[SFS_NAME_MAX + 1];
    struct sfs_event_row event;
    STAILQ_ENTRY(item) link;
};

struct sfs_hooks {
    struct sfs_env *env;
    struct sfs_hooks_opts opts;
    char dir[PATH_MAX];
    struct sfs_mutex lock; /* guards the queue */
    struct sfs_cond changed;
    STAILQ_HEAD(, item) queue;
    unsigned queued, dropped;
    bool stop;
    uint64_t end_ns; /* when stopping: nothing runs beyond it */
    struct sfs_thread *thread;
    /* of the thread alone */
    char bad[BAD_MAX][NAME_MAX + 1]; /* those that were reported */
    unsigned nbad;
};

const char *sfs_hooks_name(const char *kind)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(names[i].kind, kind))
            return names[i].name;
    return NULL;
}

int sfs_hooks_dir(char *out, size_t cap)
{
    const char *dir = getenv("SFS_HOOKS_DIR"), *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n;
    if (dir && *dir == '/')
        n = snprintf(out, cap, "%s", dir);
    else if (geteuid() == 0)
        n = snprintf(out, cap, "/etc/spacesfs/hooks.d");
    else if (config && *config == '/')
        n = snprintf(out, cap, "%s/spacesfs/hooks.d", config);
    else if (home && *home == '/')
        n = snprintf(out, cap, "%s/.config/spacesfs/hooks.d", home);
    else
        return -ENOENT;
    return n >= 0 && (size_t)n < cap ? 0 : -ENAMETOOLONG;
}

/* --- what is wrong with one ----------------------------------------------------------------------------------------------------------------------------- */

static unsigned find_bad(const struct sfs_hooks *h, const char *name)
{
    unsigned i = 0;
    while (i < h->nbad && strcmp(h->bad[i], name) != 0)
        i++;
    return i;
}

static void report(struct sfs_hooks *h, const char *name, const char *text)
{
    if (find_bad(h, name) < h->nbad)
        return;
    if (h->nbad < BAD_MAX)
        snprintf(h->bad[h->nbad++], sizeof(h->bad[0]), "%s", name);
    if (h->opts.report)
        h->opts.report(h->opts.ctx, name, text);
}

static void is_well(struct sfs_hooks *h, const char *name)
{
    unsigned i = find_bad(h, name);
    if (i < h->nbad)
        memmove(h->bad[i], h->bad[--h->nbad], sizeof(h->bad[0]));
}

/* May what st tells of decide what this process runs? */
static bool is_trusted(const struct stat *st)
{
    return (st->st_uid == 0 || st->st_uid == geteuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && !strcmp(name + n - m, end);
}

/* Editors' and package managers' leftovers, notes, and what was switched off by its name. */
static bool is_no_hook(const char *name)
{
    static const char *const ends[] = {"~",        ".bak",       ".orig",   ".swp",      ".dpkg-old", ".dpkg-new",
                                       ".dpkg-dist", ".dpkg-tmp", ".rpmnew", ".rpmsave", ".rpmorig",  ".example", ".disabled"};
    bool no = name[0] == '.' || !strncmp(name, "README", 6);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        no |= ends_with(name, ends[i]);
    return no;
}

static bool is_usable(struct sfs_hooks *h, int dir, const char *name)
{
    struct stat st;
    char text[160] = "";
    if (is_no_hook(name))
        return false;
    if (fstatat(dir, name, &st, 0) < 0)
        snprintf(text, sizeof(text), "cannot be looked at: %s", strerror(errno));
    else if (!S_ISREG(st.st_mode))
        return false;
    else if (!is_trusted(&st))
        snprintf(text, sizeof(text), "is not run: it must belong to root or to the user of the daemon, and nobody else may be allowed to write to it");
    else if (!(st.st_mode & S_IXUSR))
        snprintf(text, sizeof(text), "is not run: it is not executable (chmod +x)");
    if (text[0])
        report(h, name, text);
    return !text[0];
}

/* --- running ----------------------------------------------------------------------------------------------------------------------------------------------- */

struct call {
    const char *event;
    char vars[9][700];
    char *envp[10];
    int input; /* the event as JSON */
};

static void add_var(struct call *c, unsigned *n, const char *name, const char *value)
{
    snprintf(c->vars[*n], sizeof(c->vars[0]), "%s=%s", name, value);
    c->envp[*n] = c->vars[*n];
    ++*n;
}

static int make_input(const struct item *it, const char *event)
{
    const struct sfs_event_row *e = &it->event;
    json_t *o = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:I}", "pool", it->pool, "event", event, "kind", sfs_control_text(e->kind), "severity",
                          sfs_control_text(e->severity), "subject", sfs_control_text(e->subject), "text", sfs_control_text(e->text), "time",
                          (json_int_t)e->time);
    int fd = memfd_create("event", MFD_CLOEXEC);
    bool ok = o && fd >= 0 && json_dumpfd(o, fd, JSON_COMPACT) == 0 && write(fd, "\n", 1) == 1 && lseek(fd, 0, SEEK_SET) == 0;
    json_decref(o);
    if (!ok && fd >= 0)
        close(fd);
    return ok ? fd : -1;
}

static bool make_call(const struct item *it, struct call *c)
{
    const struct sfs_event_row *e = &it->event;
    char when[32] = "";
    struct tm tm;
    time_t t = (time_t)e->time;
    unsigned n = 0;
    *c = (struct call){.event = sfs_hooks_name(e->kind)};
    if (gmtime_r(&t, &tm))
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
    add_var(c, &n, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    add_var(c, &n, "SPACESFS_POOL", it->pool);
    add_var(c, &n, "SPACESFS_EVENT", c->event);
    add_var(c, &n, "SPACESFS_KIND", e->kind);
    add_var(c, &n, "SPACESFS_SEVERITY", e->severity);
    add_var(c, &n, "SPACESFS_SUBJECT", e->subject);
    add_var(c, &n, "SPACESFS_TEXT", e->text);
    add_var(c, &n, "SPACESFS_TIME", when);
    c->input = make_input(it, c->event);
    return c->input >= 0;
}

static uint64_t deadline(struct sfs_hooks *h)
{
    uint64_t ns = sfs_env_mono_ns(h->env) + h->opts.timeout_ns;
    sfs_mutex_lock(&h->lock);
    if (h->stop && ns > h->end_ns)
        ns = h->end_ns;
    sfs_mutex_unlock(&h->lock);
    return ns;
}

static void run_one(struct sfs_hooks *h, const char *name, const struct item *it)
{
    char path[PATH_MAX + NAME_MAX + 2], why[400];
    struct call c;
    snprintf(path, sizeof(path), "%s/%s", h->dir, name);
    if (!make_call(it, &c)) {
        report(h, name, "could not be started: out of memory");
        return;
    }
    char *argv[] = {path, (char *)(uintptr_t)c.event, NULL};
    if (sfs_hook_run(h->env, path, argv, c.envp, c.input, deadline(h), why, sizeof(why)))
        report(h, name, why);
    else
        is_well(h, name);
    close(c.input);
}

/* The usable hooks by name. 0: none. */
static unsigned list(struct sfs_hooks *h, char found[HOOKS_MAX][NAME_MAX + 1])
{
    unsigned n = 0;
    struct stat st;
    int fd = open(h->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT)
            report(h, "", strerror(errno));
        return 0;
    }
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return 0;
    }
    if (fstat(fd, &st) < 0 || !is_trusted(&st)) {
        report(h, "", "its hooks are not run: the directory must belong to root or to the user of the daemon, and nobody else may be allowed to write to it");
        closedir(d);
        return 0;
    }
    struct dirent *e;
    while ((e = readdir(d))) {
        if (!is_usable(h, fd, e->d_name))
            continue;
        if (n == HOOKS_MAX)
            report(h, e->d_name, "is not run: there are too many hooks");
        else
            snprintf(found[n++], sizeof(found[0]), "%s", e->d_name);
    }
    closedir(d);
    return n;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void run_all(struct sfs_hooks *h, const struct item *it)
{
    char (*found)[NAME_MAX + 1] = calloc(HOOKS_MAX, sizeof(*found));
    if (!found)
        return;
    unsigned n = list(h, found);
    qsort(found, n, sizeof(*found), by_name);
    for (unsigned i = 0; i < n; i++)
        run_one(h, found[i], it);
    free(found);
}

static void hooks_main(void *arg)
{
    struct sfs_hooks *h = arg;
#ifdef PR_SET_IO_FLUSHER
    prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0); /* the daemon's; hooks would inherit it */
#endif
    sfs_mutex_lock(&h->lock);
    for (;;) {
        struct item *it = STAILQ_FIRST(&h->queue);
        if (!it && h->stop)
            break;
        if (!it) {
            sfs_cond_wait(&h->changed, &h->lock);
            continue;
        }
        STAILQ_REMOVE_HEAD(&h->queue, link);
        h->queued--;
        bool late = h->stop && sfs_env_mono_ns(h->env) >= h->end_ns;
        unsigned dropped = h->dropped;
        h->dropped = 0;
        sfs_mutex_unlock(&h->lock);
        if (dropped)
            sfs_log(SFS_LOG_WARN, "hooks: %u events came too fast: no hook was run for them", dropped);
        if (late)
            sfs_log(SFS_LOG_WARN, "hooks: none was run for %s: the daemon ends", it->event.kind);
        else
            run_all(h, it);
        free(it);
        sfs_mutex_lock(&h->lock);
    }
    sfs_mutex_unlock(&h->lock);
}

/* --- the outside -------------------------------------------------------------------------------------------------------------------------------------------- */

int sfs_hooks_start(struct sfs_env *env, const struct sfs_hooks_opts *opts, struct sfs_hooks **out)
{
    struct sfs_hooks *h = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    h->env = env;
    h->opts = *opts;
    snprintf(h->dir, sizeof(h->dir), "%s", opts->dir);
    if (!h->opts.timeout_ns)
        h->opts.timeout_ns = TIMEOUT_NS;
    if (!h->opts.end_ns)
        h->opts.end_ns = END_NS;
    STAILQ_INIT(&h->queue);
    sfs_mutex_init(&h->lock, env, SFS_RANK_LEAF);
    sfs_cond_init(&h->changed, env);
    int rc = sfs_thread_start(env, "sfs-hooks", hooks_main, h, &h->thread);
    if (rc) {
        h->thread = NULL;
        sfs_hooks_free(h);
        return rc;
    }
    *out = h;
    return 0;
}

void sfs_hooks_event(struct sfs_hooks *h, const char *pool, const struct sfs_event_row *e)
{
    struct item *it = sfs_hooks_name(e->kind) ? calloc(1, sizeof(*it)) : NULL;
    if (!it)
        return;
    snprintf(it->pool, sizeof(it->pool), "%s", pool);
    it->event = *e;
    sfs_mutex_lock(&h->lock);
    bool take = h->queued < QUEUE_MAX && !h->stop;
    if (take) {
        STAILQ_INSERT_TAIL(&h->queue, it, link);
        h->queued++;
    } else {
        h->dropped++;
    }
    sfs_cond_broadcast(&h->changed);
    sfs_mutex_unlock(&h->lock);
    if (!take)
        free(it);
}

void sfs_hooks_stop(struct sfs_hooks *h)
{
    if (!h)
        return;
    sfs_mutex_lock(&h->lock);
    h->stop = true;
    h->end_ns = sfs_env_mono_ns(h->env) + h->opts.end_ns;
    sfs_cond_broadcast(&h->changed);
    sfs_mutex_unlock(&h->lock);
    if (h->thread)
        sfs_thread_join(h->thread);
    h->thread = NULL;
}

void sfs_hooks_free(struct sfs_hooks *h)
{
    struct item *it;
    if (!h)
        return;
    sfs_hooks_stop(h);
    while ((it = STAILQ_FIRST(&h->queue))) {
        STAILQ_REMOVE_HEAD(&h->queue, link);
        free(it);
    }
    sfs_cond_destroy(&h->changed);
    sfs_mutex_destroy(&h->lock);
    free(h);
}
