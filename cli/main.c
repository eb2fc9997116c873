/* spacesfs: the command line. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>
#include "cli/ui.h"
#include "fs/base/log.h"
#include "fs/pool/registry.h"

/* What lower layers could tell nobody is for whoever sits here. Warnings are events too, and stay with the
 * pool (`spacesfs events`). */
static void log_to_stderr(enum sfs_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level == SFS_LOG_ERROR)
        sfs_ui_warning(text);
}

/* 0, or an exit code after words on stderr. */
static int prepare(struct sfs_cli *c)
{
    if (sfs_registry_state_dir(c->state_dir, sizeof(c->state_dir))) {
        sfs_ui_error("There is no place to keep a list of pools in: neither HOME nor XDG_STATE_HOME is set. "
                     "Set one of them, or SFS_STATE_DIR.");
        return SFS_EXIT_FAILED;
    }
    c->env = sfs_env_new_real();
    if (!c->env)
        sfs_ui_out_of_memory();
    return 0;
}

/* `status` tells how a pool is by 1 and 2: other failures must not look like that. */
static int failure(const struct sfs_cli *c, int code)
{
    return c->command && c->command->run == sfs_cmd_status ? SFS_EXIT_UNKNOWN : code;
}

static int run(struct sfs_cli *c, int argc, char **argv)
{
    int code = sfs_cli_parse(c, argc, argv);
    if (code < 0)
        return SFS_EXIT_OK; /* help was asked for and shown */
    if (code == 0)
        code = prepare(c);
    if (code == 0)
        return c->command->run(c);
    return failure(c, code);
}

int main(int argc, char **argv)
{
    struct sfs_cli c;
    memset(&c, 0, sizeof(c));
    sfs_ui_init();
    sfs_log_set_sink(log_to_stderr, NULL);
    int code = run(&c, argc, argv);
    sfs_env_free(c.env);
    if (fflush(stdout) == EOF || ferror(stdout)) {
        sfs_ui_error("The output could not be written.");
        code = code == SFS_EXIT_OK ? failure(&c, SFS_EXIT_FAILED) : code;
    }
    return code;
}
