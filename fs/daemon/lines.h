/* JSON objects, one a line, over a socket: what both ends of the control protocol share. */
#ifndef SFS_DAEMON_LINES_H
#define SFS_DAEMON_LINES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

struct sfs_lines {
    int fd;
    size_t max; /* bytes of a line at most */
    char *buf;
    size_t used, cap;
    size_t taken; /* bytes of the line handed out last */
};
void sfs_lines_init(struct sfs_lines *l, int fd, size_t max_bytes);
void sfs_lines_fini(struct sfs_lines *l); /* does not close */
/* Next line, without its end, valid until the next call. timeout_ms for the whole line, -1: none. 1; 0: the
 * other end has closed; -ETIMEDOUT, -EMSGSIZE (too long), -errno. */
int sfs_lines_next(struct sfs_lines *l, int timeout_ms, const char **line, size_t *len);
/* Sends one object. 0 or -errno (-ETIMEDOUT: the other end does not read). */
int sfs_lines_send(int fd, const json_t *object);

/* Address of a pool's socket in a directory that is open as dir_fd, however long the directory's path is. */
int sfs_sock_address(int dir_fd, const char *pool, struct sockaddr_un *out);

#endif
