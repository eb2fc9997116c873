/* What the kernel says and libfuse 3.14 does not pass on. libfuse lets its user do the reading and writing of the device: here each request is looked at on its way in.
 *
 *   KILLPRIV_V2   With it the kernel leaves the dropping of set-id bits and capabilities to us, and says with each write and truncation whether the caller may keep the bits. Without it, it asks for
 *                 security.capability before every single write: a second round trip. libfuse 3.14 can't ask for the feature: it is put into the reply to INIT.
 *   TMPFILE       open(2) with O_TMPFILE. It has the form of CREATE, and is handed to libfuse as one.
 *
 * What was seen belongs to the thread that read the request, until it reads the next one: libfuse runs a request in the thread that read it. */
#ifndef SFS_FUSE_WIRE_H
#define SFS_FUSE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

struct fuse_session;

struct sfs_wire {
    uint64_t init;      /* the number of an INIT request that offered KILLPRIV_V2 and whose reply is still to come, 0: none */
};

/* Once, when the session is mounted and before it is served. The session's userdata is `struct sfs_fuse`. 0 or -errno. */
int sfs_wire_attach(struct fuse_session *session);
/* Of the request that the calling thread is at: set-id bits must go (write, truncation); it is a TMPFILE in the guise of CREATE. */
bool sfs_wire_kills_set_id(void);
bool sfs_wire_is_tmpfile(void);

#endif
