/* The daemon's end of the control protocol: a socket, a thread a connection, and the commands that only a
 * daemon has. */
#ifndef SFS_DAEMON_SERVER_H
#define SFS_DAEMON_SERVER_H

#include "fs/daemon/mounts.h"

struct sfs_server;

/* Listens at <run_dir>/POOL.sock, in place of a socket that a dead daemon has left: the caller holds the
 * pool's lock. shutdown: called when a client asks the daemon to end. */
int sfs_server_start(struct sfs_pool *pool, struct sfs_mounts *mounts, const char *run_dir,
                     void (*shutdown)(void *), void *ctx, struct sfs_server **out, struct sfs_error *err);
/* No new connections, no new requests; returns when all under way have been answered. Connections stay open:
 * their end tells clients that the pool is closed. */
void sfs_server_stop(struct sfs_server *s);
void sfs_server_free(struct sfs_server *s); /* stopped. NULL is fine */

#endif
