/* The model of a file's bytes: every version that it has had since the last durable one.
 *
 * After a crash each 4 KiB block of the file may be that of the durable version (the floor) or of any later one; nothing else. The size is that of one of
 * them, or in the course of growing from one to the next. A version is a list of
 * segments that covers [0, size) without a gap; tag 0 means zeros (holes are not told apart from them). */
#ifndef SIM_CONTENT_H
#define SIM_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_BLOCK 4096u

struct sim_seg {
    uint64_t off, len;
    uint32_t tag;
    uint64_t origin; /* position in the pattern of the segment's first byte */
};

struct sim_version {
    uint64_t number;    /* counts up from 0 in a file's life */
    uint64_t start, end;/* event clock when the operation that made it began, and when it had returned */
    uint64_t at_ns;     /* virtual time when it had returned */
    uint64_t size;
    unsigned nsegs, room;
    struct sim_seg *segs;
};

struct sim_content {
    struct sim_version *versions; /* oldest (the floor) first; never empty once made */
    unsigned n, room;
};

void sim_content_init(struct sim_content *c, uint64_t clock); /* one version: empty */
void sim_content_free(struct sim_content *c);
struct sim_version *sim_content_last(const struct sim_content *c);
uint64_t sim_content_size(const struct sim_content *c);
/* The operation that made the newest version has returned. */
void sim_content_done(struct sim_content *c, uint64_t end, uint64_t at_ns);
/* All versions older than `number` can't come back. */
void sim_content_floor(struct sim_content *c, uint64_t number);
/* Older than that in virtual time and superseded: the newest version at or before ns becomes the floor. */
void sim_content_floor_ns(struct sim_content *c, uint64_t ns);
/* Forgets all versions and begins with `v` (its segments are taken over). */
void sim_content_reset(struct sim_content *c, struct sim_version *v);

/* Each adds a version, made from the last one. */
void sim_content_write(struct sim_content *c, uint64_t clock, uint64_t off, uint64_t len, uint32_t tag);
void sim_content_truncate(struct sim_content *c, uint64_t clock, uint64_t size);
void sim_content_zero(struct sim_content *c, uint64_t clock, uint64_t off, uint64_t len, bool keep_size);
void sim_content_collapse(struct sim_content *c, uint64_t clock, uint64_t off, uint64_t len);
void sim_content_insert(struct sim_content *c, uint64_t clock, uint64_t off, uint64_t len);
void sim_content_copy(struct sim_content *c, uint64_t clock, uint64_t off, const struct sim_version *from, uint64_t from_off, uint64_t len);

/* Building a version by hand (after a crash: from blocks of several). */
void sim_version_append(struct sim_version *v, const struct sim_version *from, uint64_t from_off, uint64_t len);
/* The bytes [off, off + len) of a version; beyond its size: zeros. */
void sim_version_render(const struct sim_version *v, uint64_t off, uint64_t len, uint8_t *out);
bool sim_version_zero(const struct sim_version *v, uint64_t off, uint64_t len); /* only zeros there */

#endif
