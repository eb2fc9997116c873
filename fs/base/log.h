/* What the outermost layer says, once: to stderr, or to a sink that the daemon sets (syslog). Lower layers return errors instead; they log
 * only what nobody could be told. */
#ifndef SFS_BASE_LOG_H
#define SFS_BASE_LOG_H

enum sfs_log_level { SFS_LOG_ERROR, SFS_LOG_WARN, SFS_LOG_INFO, SFS_LOG_DEBUG };
typedef void (*sfs_log_sink)(enum sfs_log_level level, const char *text, void *ctx);
void sfs_log_set_sink(sfs_log_sink sink, void *ctx);
void sfs_log_set_level(enum sfs_log_level level);
void sfs_log(enum sfs_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
