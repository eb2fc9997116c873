/* The control protocol: JSON objects, one a line, over a Unix stream socket <run_dir>/POOL.sock (mode 0600).
 * The same requests are run in-process by the command line when no daemon has the pool: one code path.
 *
 * Request  {"cmd": "disk-add", ...}
 * Reply    {"ok": true, "result": {...}, "warning": "..."?}
 *      or  {"ok": false, "error": {"code": "ENOSPC", "errno": 28, "text": "..."}}
 * A long command with "wait": true may send {"progress": {"done": n, "total": n, "text": "..."}} lines
 * before its reply.
 * Bounds: a request line at most 64 KiB; 64 connections; a connection that sends nothing whole within 10 s is
 * closed.
 * Peers: SO_PEERCRED must be root or the daemon's own uid; others are refused.
 * Strings are UTF-8: what isn't shows as U+FFFD. Paths begin with '/'.
 *
 * Commands (arguments -> result); sizes are integers in bytes, times unix seconds:
 *   ping                -> {"pool", "uuid", "pid", "version"}
 *   status              -> the whole of struct sfs_pool_info:
 *     {"pool", "uuid", "health": "healthy|degraded|at-risk", "exit": 0|1|2, "verdict", "readonly",
 *      "slab_bytes", "total_bytes", "used_bytes", "free_bytes", "promised_bytes", "epoch", "replicas",
 *      "replicas_wanted", "can_heal_largest",
 *      "disks":  [{"id", "name", "uuid", "kind": "dir|image|sim", "path", "media": "ssd|hdd|unknown",
 *                  "usage", "state": "online|failed|stalled|gone", "why", "present", "total_bytes",
 *                  "used_bytes", "free_bytes", "slabs_held", "lost_since", "read_errors", "write_errors",
 *                  "checksum_errors", "replica"}],
 *      "spaces": [{"id", "name", "resiliency", "columns": 0 = auto, "interleave", "size_bytes",
 *                  "provisioning": "thin|fixed", "compression": "off|zstd:3", "total_bytes", "used_bytes",
 *                  "avail_bytes", "inodes", "raw_bytes", "health", "groups", "groups_degraded",
 *                  "groups_lost", "mounts": ["/dir"]}],
 *      "jobs":   [{"id", "kind", "state", "what", "done", "total", "rate_bytes_s", "eta_s", "started",
 *                  "ended", "result"}],
 *      "damage": as the result of "damage", the first 20 files}
 *   damage              -> {"count", "more": there are at least so many, "files": [{"space",
 *                           "path": null = it has no name, "ino", "bytes": that can't be read,
 *                           "why": "damaged|missing"}]}
 *   events {"after"?, "max"?}
 *                       -> {"events": [{"id", "time", "severity", "kind", "subject", "text"}]}
 *   space-create {"name", "resiliency"?, "size"?, "columns"?, "interleave"?, "provisioning"?, "compression"?}
 *                          (values as the user typed them: strings)
 *   space-set {"name", same keys, "wait"?}, space-rename {"name", "to"}, space-destroy {"name", "wait"?}
 *                       -> {"job", "text"?} (the first and the last)
 *   disk-add {"disks": [{"path", "name"?, "size"?}], "force"?}
 *   disk-set {"disk", "key", "value", "wait"?}, disk-remove {"disk", "wait"?},
 *   disk-replace {"disk", "with" (a disk's name), "wait"?}, rebalance {"wait"?}, optimize {"wait"?}
 *                       -> {"job": 0 = none was needed, "text"? how it ended}
 *   disk-forget {"disk", "look"?: true = change nothing}
 *                       -> {"slabs", "rebuilt", "lost_bytes", "spaces": [{"name", "groups", "bytes"}]}
 *   job-pause {"job"}, job-resume {"job", "wait"?}, job-cancel {"job"}
 *   pool-set {"key", "value"}, pool-get {"key"} -> {"value"}
 *   heal {"wait"?}
 *   where {"space", "path"}
 *                       -> {"size", "inline": bool, "truncated"?: true when there are more pieces than fit,
 *                           "pieces": [{"off", "len", "group", "resiliency",
 *                                       "damaged": bytes without a good copy,
 *                                       "places": [{"column", "copy", "disk", "slot", "online"}]}]}
 *                          neighbours that lie alike are one piece
 *   scrub {"wait"?, "stop"?}  -> {"job", "text"?}, or {} with stop
 *   scrub-report        -> {"state", "result", "started", "ended", "last", "next": 0 = not by itself,
 *                           "disks": [{"disk", "bytes"}], "files": [{"space", "path", "disk", "bytes"}]:
 *                           rewritten from good copies, "damage": as above}
 *   impact {"disk"}     -> {"disk", "online", "spaces": [{"id", "name", "resiliency", "lost": {"files", "bytes"},
 *                           "at_risk": {...}, "weaker": {...}}], "examples": [{"space", "path"}], "slabs",
 *                           "slabs_placed", "slabs_hopeless", "can_heal", "replicas_left"}
 *   sync
 * A daemon's only:
 *   mount {"space", "dir", "options"?, "source"} -> {"dir"}
 *                          source: the fsname, letter by letter as in fstab; "warning": why it is read-only
 *                          though nobody asked for that
 *   remount {"dir", "options"?}
 *   umount {"dir", "lazy"?} -> {"last"}
 *                          replies when all is durable and the mount is gone; last: no other is left, the
 *                          daemon ends, and the connection with it once the pool is closed
 *   mounts              -> {"mounts": [{"space", "dir", "source", "readonly"}]}
 *   shutdown               refused while anything is mounted */
#ifndef SFS_DAEMON_CONTROL_H
#define SFS_DAEMON_CONTROL_H

#include <jansson.h>
#include "fs/pool/pool.h"

/* Runs one request on an open pool (not the daemon-only ones: {"ok":false} ENOTSUP). Never NULL. progress may
 * be NULL. The reply is the caller's. */
typedef void (*sfs_control_progress)(void *ctx, json_t *progress);
json_t *sfs_control_run(struct sfs_pool *p, const json_t *request, sfs_control_progress progress, void *ctx);
json_t *sfs_control_error(int code, const char *text);

/* Client side: asks the daemon of a pool (by name). -ECONNREFUSED/-ENOENT: none runs. Else 0 and the reply.
 * Waits without limit for long commands, but fails when the daemon dies. */
int sfs_control_ask(const char *run_dir, const char *pool, const json_t *request,
                    sfs_control_progress progress, void *ctx, json_t **reply);

#endif
