/* The client's end of the control protocol, step by step; sfs_control_ask (control.h) is the whole of it. */
#ifndef SFS_DAEMON_CLIENT_H
#define SFS_DAEMON_CLIENT_H

#include "fs/daemon/control.h"

/* A connection to a pool's daemon: the descriptor, or -ENOENT, -ECONNREFUSED (none runs), -errno. */
int sfs_client_connect(const char *run_dir, const char *pool);
/* One request, one reply; as sfs_control_ask. -ECONNRESET: the daemon has ended meanwhile. */
int sfs_client_request(int fd, const json_t *request, sfs_control_progress progress, void *ctx,
                       json_t **reply);
/* Waits until the daemon closes the connection, for timeout_ms at most. */
void sfs_client_wait_end(int fd, int timeout_ms);
/* Did the request succeed? Else fills err with the daemon's words. */
int sfs_client_result(const json_t *reply, struct sfs_error *err);

/* The daemon that serves the mount at dir: connects to each daemon there is. The descriptor, or -ENOENT. */
int sfs_client_find_mount(const char *run_dir, const char *dir);

#endif
