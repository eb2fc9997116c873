/* spacesfs job: orders to background jobs; spacesfs optimize. */
#include "cli/command.h"

#include <errno.h>
#include <stdlib.h>
#include "cli/request.h"

static int order(struct sfs_cli *c, const char *cmd, unsigned flags, const char *done)
{
    char *end;
    errno = 0;
    long long id = strtoll(c->args[1], &end, 10);
    if (c->args[1][0] < '0' || c->args[1][0] > '9' || *end || errno || id <= 0)
        return sfs_cli_usage(c, "`%s` is not the number of a job. `spacesfs jobs %s` lists them.", c->args[1], c->args[0]);
    json_t *result = sfs_request(c, c->args[0], json_pack("{s:s,s:I}", "cmd", cmd, "job", (json_int_t)id), flags);
    return result ? sfs_request_done(c, result, "%s: job %lld %s.", c->args[0], id, done) : SFS_EXIT_FAILED;
}

int sfs_cmd_job_pause(struct sfs_cli *c)
{
    return order(c, "job-pause", 0, "is paused");
}

int sfs_cmd_job_resume(struct sfs_cli *c)
{
    return order(c, "job-resume", SFS_REQUEST_WAIT_IN_PROCESS, "goes on");
}

int sfs_cmd_job_cancel(struct sfs_cli *c)
{
    return order(c, "job-cancel", 0, "was cancelled; what it has moved stays where it is");
}

int sfs_cmd_optimize(struct sfs_cli *c)
{
    const char *pool = c->args[0];
    json_t *result =
        sfs_request(c, pool, json_pack("{s:s,s:b}", "cmd", "optimize", "wait", sfs_cli_flag(c, "wait")),
                    SFS_REQUEST_WAIT_IN_PROCESS);
    if (!result)
        return SFS_EXIT_FAILED;
    const char *text = sfs_json_text(result, "text");
    if (*text)
        return sfs_request_done(c, result, "%s: %s.", pool, text);
    return sfs_request_done(c, result, "%s: job %llu is at work. Watch it: spacesfs jobs %s --watch", pool,
                            (unsigned long long)sfs_json_u64(result, "job"), pool);
}
