/* spacesfs where: which disks hold a file. */
#include "cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cli/mounts.h"
#include "cli/request.h"
#include "cli/table.h"

struct place {
    int mount_id;               /* -1: not told by the kernel; then the longest prefix wins */
    const char *real;           /* absolute path of the file, without symlinks */
    char which[SFS_PATH_BYTES]; /* pool, as the mount's source names it */
    char space[SFS_NAME_MAX + 1];
    char *path; /* from the space's root */
    char type[64];
    char dev[32];
    size_t prefix;
};

static int match_mount(const struct sfs_cli_mount *m, void *ctx)
{
    struct place *p = ctx;
    struct sfs_error err;
    size_t len = strcmp(m->dir, "/") ? strlen(m->dir) : 0;
    bool below = !strncmp(p->real, m->dir, len) && (p->real[len] == '/' || !p->real[len]);
    if (p->mount_id >= 0 ? m->id != p->mount_id : !below || len < p->prefix)
        return 0;
    p->prefix = len;
    free(p->path);
    p->path = NULL;
    p->which[0] = '\0';
    snprintf(p->type, sizeof(p->type), "%s", m->type);
    snprintf(p->dev, sizeof(p->dev), "%s", m->dev);
    if (strcmp(m->type, "fuse.spacesfs") != 0 || !below ||
        sfs_target_split(m->source, p->which, sizeof(p->which), p->space, &err))
        return 0;
    /* A bind mount shows a directory below the space's root. */
    if (asprintf(&p->path, "%s%s", strcmp(m->root, "/") ? m->root : "", p->real[len] ? p->real + len : "/") <
        0)
        sfs_ui_out_of_memory();
    return 0;
}

/* 0 or -errno with words. p->path is the caller's to free in both cases. */
static int locate(const char *file, struct place *p, struct sfs_error *err)
{
    struct statx sx;
    struct stat st;
    memset(p, 0, sizeof(*p));
    char *real = realpath(file, NULL);
    if (!real)
        return sfs_error_set(err, -errno, "%s: %s.", file, strerror(errno));
    p->real = real;
    p->mount_id =
        statx(AT_FDCWD, real, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &sx) == 0 && (sx.stx_mask & STATX_MNT_ID)
            ? (int)sx.stx_mnt_id
            : -1;
    int rc = sfs_cli_mounts_each(match_mount, p);
    if (rc)
        sfs_error_set(err, rc, "%s: the list of mounts can't be read: %s.", file, strerror(-rc));
    else if (!p->path)
        rc = sfs_error_set(err, -EINVAL, "%s: it lies on %s, not in a mounted space.", file,
                           p->type[0] ? p->type : "another filesystem");
    if (rc == 0 && stat(real, &st) == 0 && !S_ISREG(st.st_mode))
        rc = sfs_error_set(err, -EINVAL, "%s: it is not a regular file, and lies in the pool's catalog alone.", file);
    free(real);
    p->real = NULL;
    return rc;
}

/* A renamed space stays mounted by its former name: the daemon knows what it is called now. */
struct naming {
    struct place *place;
    const json_t *mounts;
};

static int take_name(const struct sfs_cli_mount *m, void *ctx)
{
    struct naming *n = ctx;
    json_t *one;
    size_t i;
    json_array_foreach(n->mounts, i, one)
        if (!strcmp(m->dev, n->place->dev) && !strcmp(m->dir, sfs_json_text(one, "dir"))) {
            snprintf(n->place->space, sizeof(n->place->space), "%s", sfs_json_text(one, "space"));
            return 1;
        }
    return 0;
}

static void name_now(struct sfs_cli *c, struct place *p)
{
    struct sfs_target target;
    struct sfs_error err;
    json_t *request = json_pack("{s:s}", "cmd", "mounts"), *result = NULL;
    if (request && !sfs_target_resolve(c, p->which, &target, &err) &&
        !sfs_request_daemon(c, &target, request, &result, &err)) {
        struct naming n = {p, sfs_json_array(result, "mounts")};
        sfs_cli_mounts_each(take_name, &n);
        json_decref(result);
    }
    json_decref(request);
}

/* --- words ----------------------------------------------------------------------------------------------- */
struct tally {
    uint64_t whole, short_of_copies, lost, damaged; /* bytes */
};

/* "d1+d2": the copies; over several columns "d1+d2, d3+d4". What isn't online stands in brackets. Counts
 * columns that miss a copy, or have none. */
static void places_text(const json_t *places, char *out, size_t cap, unsigned *weak, unsigned *dead)
{
    size_t n = 0, i, k;
    json_t *place, *other;
    *weak = *dead = 0;
    out[0] = '\0';
    json_array_foreach(places, i, place)
    {
        uint64_t column = sfs_json_u64(place, "column");
        unsigned online = 0, copies = 0;
        const json_t *first = NULL;
        json_array_foreach(places, k, other)
        {
            if (sfs_json_u64(other, "column") != column)
                continue;
            first = first ? first : other;
            copies++;
            online += sfs_json_true(other, "online");
        }
        const char *disk = sfs_json_text(place, "disk");
        bool ok = sfs_json_true(place, "online");
        if (first == place) {
            *weak += online < copies;
            *dead += online == 0;
        }
        if (n < cap)
            n += (size_t)snprintf(out + n, cap - n, "%s%s%s%s",
                                  i == 0           ? ""
                                  : first == place ? ", "
                                                   : "+",
                                  ok ? "" : "[", *disk ? disk : "missing", ok ? "" : "]");
    }
}

static unsigned parity_of(const char *resiliency)
{
    return !strcmp(resiliency, "parity") ? 1 : !strcmp(resiliency, "parity2") ? 2 : 0;
}

/* A row of the table: one run of the file, or all runs that lie on the same disks in the same way. */
struct row {
    uint64_t off, len, group, pieces;
    char resiliency[16], disks[1024];
    enum sfs_tone tone;
    const char *state;
};
struct rows {
    struct row *v;
    size_t n;
};

static void describe_piece(const json_t *piece, struct row *r, struct tally *sum)
{
    unsigned weak, dead;
    *r = (struct row){.off = sfs_json_u64(piece, "off"),
                      .len = sfs_json_u64(piece, "len"),
                      .group = sfs_json_u64(piece, "group"),
                      .pieces = 1};
    snprintf(r->resiliency, sizeof(r->resiliency), "%s", sfs_json_text(piece, "resiliency"));
    places_text(sfs_json_array(piece, "places"), r->disks, sizeof(r->disks), &weak, &dead);
    bool lost = dead > parity_of(r->resiliency);
    uint64_t damaged = sfs_json_u64(piece, "damaged");
    *(lost ? &sum->lost : weak ? &sum->short_of_copies : &sum->whole) += r->len;
    sum->damaged += lost ? 0 : damaged;
    r->tone = lost || damaged ? SFS_TONE_BAD : weak ? SFS_TONE_WARN : SFS_TONE_GOOD;
    r->state = lost ? "missing" : damaged ? "damaged" : weak ? "degraded" : "whole";
}

static void add_row(struct rows *rows, const struct row *r, bool sums)
{
    for (size_t i = 0; sums && i < rows->n; i++) {
        struct row *old = &rows->v[i];
        if (old->state == r->state && !strcmp(old->disks, r->disks) &&
            !strcmp(old->resiliency, r->resiliency)) {
            old->len += r->len;
            old->pieces++;
            return;
        }
    }
    if (!(rows->n & (rows->n - 1))) {
        struct row *more = realloc(rows->v, (rows->n ? 2 * rows->n : 1) * sizeof(*more));
        if (!more)
            sfs_ui_out_of_memory();
        rows->v = more;
    }
    rows->v[rows->n++] = *r;
}

static void print_rows(const struct sfs_cli *c, const struct rows *rows, bool sums)
{
    static const struct sfs_column columns[] = {
        {"OFFSET", true, "-", SFS_FIT_KEEP},       {"STORED", true, NULL, SFS_FIT_KEEP},
        {"PIECES", true, "-", SFS_FIT_KEEP},       {"GROUP", true, "-", SFS_FIT_KEEP},
        {"RESILIENCY", false, NULL, SFS_FIT_KEEP}, {"STATE", false, NULL, SFS_FIT_KEEP},
        {"DISKS", false, NULL, SFS_FIT_WRAP}};
    struct sfs_table *t = sfs_table_new(columns, 7);
    char number[24];
    for (size_t i = 0; i < rows->n; i++) {
        const struct row *r = &rows->v[i];
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sums ? "-" : sfs_ui_size(c, r->off, number));
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, r->len, number));
        snprintf(number, sizeof(number), "%llu", (unsigned long long)(sums ? r->pieces : r->group));
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sums ? number : "-");
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sums ? "-" : number);
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", r->resiliency);
        sfs_table_cell(t, r->tone, "%s", r->state);
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", r->disks);
    }
    sfs_table_print(t, stdout, 2);
    sfs_table_free(t);
}

static void print_where(const struct sfs_cli *c, const char *file, const json_t *result)
{
    char size[24], part[24], clean[2 * SFS_PATH_BYTES];
    bool sums = !sfs_cli_flag(c, "pieces");
    struct tally sum = {0};
    struct rows rows = {0};
    size_t i;
    json_t *piece;
    json_array_foreach(sfs_json_array(result, "pieces"), i, piece)
    {
        struct row r;
        describe_piece(piece, &r, &sum);
        add_row(&rows, &r, sums);
    }
    printf("%s: %s", sfs_ui_clean(file, clean, sizeof(clean)),
           sfs_ui_size(c, sfs_json_u64(result, "size"), size));
    if (sfs_json_true(result, "inline"))
        printf(", kept in the pool's catalog, on every disk that holds a replica of it.\n");
    else if (rows.n == 0)
        printf(", without stored data (empty, or all holes).\n");
    else if (sum.damaged)
        printf(", damaged: no good copy is left of %s.\n", sfs_ui_size(c, sum.damaged, part));
    else if (sum.lost)
        printf(", of which %s can't be read without the disks that are missing.\n",
               sfs_ui_size(c, sum.lost, part));
    else if (sum.short_of_copies)
        printf(", all readable, but %s of it with fewer copies than it should have.\n",
               sfs_ui_size(c, sum.short_of_copies, part));
    else
        printf(", all copies are there.\n");
    if (rows.n)
        print_rows(c, &rows, sums);
    if (sfs_json_true(result, "truncated"))
        printf("  (the file lies in more pieces than are listed)\n");
    free(rows.v);
}

static json_t *ask_where(struct sfs_cli *c, const char *file)
{
    struct place place;
    struct sfs_error err;
    json_t *result = NULL;
    if (locate(file, &place, &err))
        sfs_ui_error("%s", err.text);
    else {
        name_now(c, &place);
        result =
            sfs_request(c, place.which,
                        json_pack("{s:s,s:s,s:s}", "cmd", "where", "space", place.space, "path", place.path),
                        SFS_REQUEST_READONLY);
    }
    free(place.path);
    return result;
}

int sfs_cmd_where(struct sfs_cli *c)
{
    json_t *all = json_array();
    int code = SFS_EXIT_OK;
    for (unsigned i = 0; i < c->nargs; i++) {
        json_t *result = ask_where(c, c->args[i]);
        if (!result) {
            code = SFS_EXIT_FAILED;
            continue;
        }
        if (c->json) {
            json_object_set_new(result, "file", json_string(c->args[i]));
            json_array_append(all, result);
        } else {
            print_where(c, c->args[i], result);
        }
        json_decref(result);
    }
    if (c->json) {
        json_t *files = json_pack("{s:O}", "files", all);
        sfs_json_print(c, files);
        json_decref(files);
    }
    json_decref(all);
    return code;
}
