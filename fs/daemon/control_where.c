/* Where a file lies: from the vfs of the mounted space, which knows of data not yet stored, or from one
 * opened for the purpose. */
#include "fs/daemon/control_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Pieces in one reply at most; neighbours that lie alike are one piece. */
#define PIECES_MAX 65536u

struct pieces {
    struct sfs_pool *pool;
    json_t *list;
    bool is_inline, truncated;
    /* the last one, not yet in the list */
    uint64_t off, len, group, damaged;
    char resiliency[16];
    struct sfs_place places[SFS_MAX_SLABS_PER_GROUP];
    unsigned nplaces;
};

static json_t *place_json(const struct sfs_place *p)
{
    return json_pack("{s:I, s:I, s:o, s:I, s:b}", "column", (json_int_t)p->column, "copy",
                     (json_int_t)p->copy, "disk", sfs_control_text(p->disk), "slot", (json_int_t)p->slot,
                     "online", (int)p->online);
}

/* Puts the last piece into the list. 0 or -ENOMEM. */
static int put_last(struct pieces *p)
{
    json_t *places, *piece;

    if (p->len == 0)
        return 0;
    if (json_array_size(p->list) == PIECES_MAX) {
        p->truncated = true;
        return 0;
    }
    places = json_array();
    for (unsigned i = 0; i < p->nplaces; i++)
        if (!places || json_array_append_new(places, place_json(&p->places[i])) < 0) {
            json_decref(places);
            return -ENOMEM;
        }
    piece = json_pack("{s:I, s:I, s:I, s:s, s:I, s:o}", "off", (json_int_t)p->off, "len", (json_int_t)p->len,
                      "group", (json_int_t)p->group, "resiliency", p->resiliency, "damaged",
                      (json_int_t)p->damaged, "places", places);
    return json_array_append_new(p->list, piece) == 0 ? 0 : -ENOMEM;
}

static bool same_places(const struct pieces *p, const struct sfs_place *places, unsigned n)
{
    if (n != p->nplaces)
        return false;
    for (unsigned i = 0; i < n; i++)
        if (places[i].column != p->places[i].column || places[i].copy != p->places[i].copy ||
            places[i].slot != p->places[i].slot || places[i].online != p->places[i].online ||
            strcmp(places[i].disk, p->places[i].disk) != 0)
            return false;
    return true;
}

static int add_piece(void *ctx, uint64_t off, uint64_t len, uint64_t group, uint64_t goff, uint32_t slen)
{
    struct sfs_place places[SFS_MAX_SLABS_PER_GROUP];
    struct pieces *p = ctx;
    char resiliency[16];
    uint64_t damaged;
    unsigned n;
    int rc;

    if (group == 0) {
        p->is_inline = true;
        return 0;
    }
    rc = sfs_pool_places(p->pool, group, goff, slen, places, SFS_MAX_SLABS_PER_GROUP, &n, resiliency);
    if (rc < 0)
        return rc;
    damaged = sfs_pool_damaged_bytes(p->pool, group, goff, slen);
    if (damaged > len)
        damaged = len; /* of a compressed piece: all of it */
    if (p->len > 0 && p->group == group && p->off + p->len == off && same_places(p, places, n) &&
        !damaged == !p->damaged) {
        p->len += len;
        p->damaged += damaged;
        return 0;
    }
    rc = put_last(p);
    if (rc < 0)
        return rc;
    p->off = off;
    p->len = len;
    p->group = group;
    p->damaged = damaged;
    memcpy(p->resiliency, resiliency, sizeof(p->resiliency));
    memcpy(p->places, places, n * sizeof(places[0]));
    p->nplaces = n;
    return 0;
}

static json_t *where(struct sfs_control_call *c, struct sfs_vfs *vfs, const char *path)
{
    struct pieces p = {.pool = c->pool};
    struct sfs_error err;
    struct stat st;
    json_t *result;
    uint64_t ino;
    int rc;

    rc = sfs_vfs_resolve(vfs, path, &ino);
    if (rc == 0)
        rc = sfs_vfs_getattr(vfs, ino, &st);
    if (rc == 0 && !S_ISREG(st.st_mode))
        return sfs_control_fail(
            sfs_error_set(&err, -EINVAL, "%s is not a regular file: it lies in the catalog alone", path),
            &err);
    p.list = json_array();
    if (rc == 0 && !p.list)
        rc = -ENOMEM;
    if (rc == 0)
        rc = sfs_vfs_map(vfs, ino, add_piece, &p);
    if (rc == 0)
        rc = put_last(&p);
    if (rc < 0) {
        json_decref(p.list);
        return sfs_control_fail(sfs_error_set(&err, rc, "%s: %s", path, strerror(-rc)), &err);
    }
    result = json_pack("{s:I, s:o, s:b}", "size", (json_int_t)st.st_size, "pieces", p.list, "inline",
                       (int)p.is_inline);
    if (result && p.truncated)
        json_object_set_new(result, "truncated", json_true());
    return sfs_control_ok(result, NULL);
}

static json_t *where_unmounted(struct sfs_control_call *c, const char *space, const char *path)
{
    const struct sfs_vfs_opts opts = {.readonly = true};
    struct sfs_volume *volume;
    struct sfs_error err = {0};
    struct sfs_vfs *vfs;
    json_t *reply;
    int rc;

    rc = sfs_pool_volume_get(c->pool, space, &volume, &err);
    if (rc < 0)
        return sfs_control_fail(rc, &err);
    rc = sfs_vfs_open(volume, &opts, &vfs, &err);
    if (rc < 0) {
        reply = sfs_control_fail(rc, &err);
    } else {
        reply = where(c, vfs, path);
        sfs_vfs_close(vfs); /* it has written nothing */
    }
    sfs_pool_volume_put(c->pool, volume);
    return reply;
}

json_t *sfs_control_where(struct sfs_control_call *c)
{
    const char *space, *path;
    struct sfs_error err;
    struct sfs_vfs *vfs;
    json_t *reply;
    int rc;

    rc = sfs_control_args(c->request, &err, "{s:s, s:s !}", "space", &space, "path", &path);
    if (rc < 0)
        return sfs_control_fail(rc, &err);
    vfs = c->vfs_get ? c->vfs_get(c->ctx, space) : NULL;
    if (!vfs)
        return where_unmounted(c, space, path);
    reply = where(c, vfs, path);
    c->vfs_put(c->ctx, vfs);
    return reply;
}
