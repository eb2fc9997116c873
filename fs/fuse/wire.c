#include "fs/fuse/wire.h"

#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/fuse/ops.h"

static _Thread_local struct {
    bool kills_set_id, tmpfile;
} seen;

bool sfs_wire_kills_set_id(void)
{
    return seen.kills_set_id;
}

bool sfs_wire_is_tmpfile(void)
{
    return seen.tmpfile;
}

/* --- in ------------------------------------------------------------------------------------------- */

/* The body behind a request's header, NULL when it is shorter than that. */
static const void *body(const struct fuse_in_header *h, size_t len, size_t need)
{
    return len >= sizeof(*h) + need ? (const uint8_t *)h + sizeof(*h) : NULL;
}

static void look(struct sfs_wire *w, struct fuse_in_header *h, size_t len)
{
    const struct fuse_write_in *write;
    const struct fuse_setattr_in *set;
    const struct fuse_init_in *init;

    seen.kills_set_id = seen.tmpfile = false;
    switch (h->opcode) {
    case FUSE_WRITE:
        write = body(h, len, sizeof(*write));
        seen.kills_set_id = write && (write->write_flags & FUSE_WRITE_KILL_SUIDGID);
        break;
    case FUSE_SETATTR:
        set = body(h, len, sizeof(*set));
        seen.kills_set_id = set && (set->valid & FATTR_KILL_SUIDGID);
        break;
    case FUSE_INIT:
        init = body(h, len, offsetof(struct fuse_init_in, flags2)); /* as short as the first kernels with 7.6 sent it */
        if (init && (init->flags & FUSE_HANDLE_KILLPRIV_V2))
            w->init = h->unique;
        break;
    case FUSE_TMPFILE:
        h->opcode = FUSE_CREATE;
        seen.tmpfile = true;
        break;
    default:
        break;
    }
}

static ssize_t on_read(int fd, void *buf, size_t cap, void *userdata)
{
    struct sfs_fuse *f = userdata;
    ssize_t n = read(fd, buf, cap);

    if (n >= (ssize_t)sizeof(struct fuse_in_header))
        look(&f->wire, buf, (size_t)n);
    return n;
}

/* --- out ------------------------------------------------------------------------------------------ */

static ssize_t on_writev(int fd, struct iovec *iov, int count, void *userdata)
{
    struct sfs_fuse *f = userdata;
    const struct fuse_out_header *h = iov[0].iov_base;

    if (f->wire.init && h->unique == f->wire.init) { /* the first reply of all: nothing else runs yet */
        struct fuse_init_out *out = count == 2 ? iov[1].iov_base : NULL;

        f->wire.init = 0;
        if (h->error == 0 && out && iov[1].iov_len >= offsetof(struct fuse_init_out, max_background))
            out->flags = (out->flags & ~(uint32_t)FUSE_HANDLE_KILLPRIV) | FUSE_HANDLE_KILLPRIV_V2;
    }
    return writev(fd, iov, count);
}

int sfs_wire_attach(struct fuse_session *session)
{
    static const struct fuse_custom_io io = {.read = on_read, .writev = on_writev};

    return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}
