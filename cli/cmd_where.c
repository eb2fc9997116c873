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
    char *path;                 /* from the space's root */
    char type[64];
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
    if (strcmp(m->type, "fuse.spacesfs") != 0 || !below || sfs_target_split(m->source, p->which, sizeof(p->which), p->space, &err))
        return 0;
    /* A bind mount shows a directory below the space's root. */
    if (asprintf(&p->path, "%s%s", strcmp(m->root, "/") ? m->root : "", p->real[len] ? p->real + len : "/") < 0)
        sfs_ui_out_of_memory();
    return 0;
}

/* 0 or -errno with words. p->path is the caller's to free in both cases. */
static int locate(const char *file, struct place *p, struct sfs_error *err)
{
    struct statx sx;
    memset(p, 0, sizeof(*p));
    char *real = realpath(file, NULL);
    if (!real)
        return sfs_error_set(err, -errno, "%s: %s.", file, strerror(errno));
    p->real = real;
    p->mount_id = statx(AT_FDCWD, real, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &sx) == 0 && (sx.stx_mask & STATX_MNT_ID) ? (int)sx.stx_mnt_id : -1;
    int rc = sfs_cli_mounts_each(match_mount, p);
    if (rc)
        sfs_error_set(err, rc, "%s: the list of mounts can't be read: %s.", file, strerror(-rc));
    else if (!p->path)
        rc = sfs_error_set(err, -EINVAL, "%s: it lies on %s, not in a mounted space.", file, p->type[0] ? p->type : "another filesystem");
    free(real);
    p->real = NULL;
    return rc;
}

/* --- words ------------------------------------------------------------------------------------------------------------------------- */
struct tally {
    uint64_t whole, short_of_copies, lost; /* bytes */
};

/* "d1+d2": the copies; over several columns "d1+d2, d3+d4". What isn't online stands in brackets. Counts columns that miss a copy, or have none. */
static void places_text(const json_t *places, char *out, size_t cap, unsigned *weak, unsigned *dead)
{
    size_t n = 0, i, k;
    json_t *place, *other;
    *weak = *dead = 0;
    out[0] = '\0';
    json_array_foreach(places, i, place) {
        uint64_t column = sfs_json_u64(place, "column");
        unsigned online = 0, copies = 0;
        const json_t *first = NULL;
        json_array_foreach(places, k, other) {
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
            n += (size_t)snprintf(out + n, cap - n, "%s%s%s%s", i == 0 ? "" : first == place ? ", " : "+", ok ? "" : "[", *disk ? disk : "missing", ok ? "" : "]");
    }
}

static bool same_place(const json_t *a, const json_t *b)
{
    return sfs_json_u64(a, "group") == sfs_json_u64(b, "group") && sfs_json_u64(a, "off") + sfs_json_u64(a, "len") <= sfs_json_u64(b, "off") &&
           json_equal(sfs_json_array(a, "places"), sfs_json_array(b, "places"));
}

static unsigned parity_of(const char *resiliency)
{
    return !strcmp(resiliency, "parity") ? 1 : !strcmp(resiliency, "parity2") ? 2 : 0;
}

static void piece_row(const struct sfs_cli *c, struct sfs_table *t, const json_t *piece, uint64_t len, struct tally *sum)
{
    char off[24], size[24], disks[1024];
    unsigned weak, dead;
    const char *resiliency = sfs_json_text(piece, "resiliency");
    places_text(sfs_json_array(piece, "places"), disks, sizeof(disks), &weak, &dead);
    bool lost = dead > parity_of(resiliency);
    *(lost ? &sum->lost : weak ? &sum->short_of_copies : &sum->whole) += len;
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(piece, "off"), off));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, len, size));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%llu", (unsigned long long)sfs_json_u64(piece, "group"));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", resiliency);
    sfs_table_cell(t, lost ? SFS_TONE_BAD : weak ? SFS_TONE_WARN : SFS_TONE_GOOD, "%s", lost ? "lost" : weak ? "degraded" : "whole");
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", disks);
}

static void print_where(const struct sfs_cli *c, const char *file, const json_t *result)
{
    static const struct sfs_column columns[] = {{"OFFSET", true, NULL}, {"STORED", true, NULL}, {"GROUP", true, NULL},
                                                {"RESILIENCY", false, NULL}, {"STATE", false, NULL}, {"DISKS", false, NULL}};
    char size[24], part[24], clean[2 * SFS_PATH_BYTES];
    const json_t *pieces = sfs_json_array(result, "pieces");
    size_t n = json_array_size(pieces);
    struct tally sum = {0};
    struct sfs_table *t = sfs_table_new(columns, 6);
    for (size_t i = 0; i < n;) {
        const json_t *first = json_array_get(pieces, i);
        uint64_t len = sfs_json_u64(first, "len");
        for (i++; i < n && same_place(first, json_array_get(pieces, i)); i++)
            len += sfs_json_u64(json_array_get(pieces, i), "len");
        piece_row(c, t, first, len, &sum);
    }
    printf("%s: %s", sfs_ui_clean(file, clean, sizeof(clean)), sfs_ui_size(c, sfs_json_u64(result, "size"), size));
    if (sfs_json_true(result, "inline"))
        printf(", kept in the pool's catalog, on every disk that holds a replica of it.\n");
    else if (n == 0)
        printf(", without stored data (empty, or all holes).\n");
    else if (sum.lost)
        printf(", of which %s can't be read now.\n", sfs_ui_size(c, sum.lost, part));
    else if (sum.short_of_copies)
        printf(", all readable; %s of it short of copies.\n", sfs_ui_size(c, sum.short_of_copies, part));
    else
        printf(", whole.\n");
    if (n)
        sfs_table_print(t, stdout, 2);
    sfs_table_free(t);
}

static json_t *ask_where(struct sfs_cli *c, const char *file)
{
    struct place place;
    struct sfs_error err;
    json_t *result = NULL;
    if (locate(file, &place, &err))
        sfs_ui_error("%s", err.text);
    else
        result = sfs_request(c, place.which, json_pack("{s:s,s:s,s:s}", "cmd", "where", "space", place.space, "path", place.path), SFS_REQUEST_READONLY);
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
