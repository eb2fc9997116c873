/* The command line: what commands there are, and what one of them gets to see when it runs.
 *
 * One table (commands.c) names every command with its arguments and options; parsing (args.c) and help
 * (help.c) both come from it, so that neither can say what the other doesn't do. A command is: parse,
 * request, print. What it asks of a pool goes through request.h.
 *
 * Exit codes: 0 done, 1 failed, 2 used wrongly. `status` has its own: 0 healthy, 1 degraded, 2 data at risk
 * or lost, 3 could not tell. */
#ifndef SFS_CLI_COMMAND_H
#define SFS_CLI_COMMAND_H

#include <stdbool.h>
#include "fs/base/env.h"
#include "fs/disk/label.h"

enum sfs_exit { SFS_EXIT_OK = 0, SFS_EXIT_FAILED = 1, SFS_EXIT_USAGE = 2, SFS_EXIT_UNKNOWN = 3 };

struct sfs_option {
    const char *name;  /* "size" for --size; NULL ends a list */
    char letter;       /* 'o' for -o; 0 for none */
    const char *value; /* what the help calls its value; NULL for a flag */
    const char *help;
};

/* Options that many commands share; each is described once (args.c). */
enum {
    SFS_OPT_FORCE = 1,
    SFS_OPT_YES = 2,
    SFS_OPT_WATCH = 4,
    SFS_OPT_BYTES = 8,
    SFS_OPT_JSON = 16
}; /* in the order of the help */

struct sfs_cli;
struct sfs_command {
    const char *name;                 /* "pool create" */
    const char *args;                 /* "POOL DISK..." */
    int min_args, max_args;           /* max -1: any number */
    unsigned common;                  /* SFS_OPT_* */
    const struct sfs_option *options; /* its own; NULL for none */
    int (*run)(struct sfs_cli *c);    /* returns an exit code */
    const char *summary;              /* one line, for lists of commands */
    const char *details;              /* paragraphs, separated by newlines; wrapped when shown */
};
extern const struct sfs_command sfs_commands[];
extern const unsigned sfs_ncommands;

/* First words that several commands share: "pool", "disk", "space". */
struct sfs_command_group {
    const char *name, *summary;
};
extern const struct sfs_command_group sfs_command_groups[];
extern const unsigned sfs_ncommand_groups;

#define SFS_CLI_MAX_OPTIONS 32u

struct sfs_cli {
    const struct sfs_command *command;
    char **args;
    unsigned nargs;
    struct {
        const struct sfs_option *option;
        const char *value;
    } given[SFS_CLI_MAX_OPTIONS];
    unsigned ngiven;
    struct sfs_env *env;
    char state_dir[SFS_PATH_BYTES];
    bool json, bytes, yes, watch, force;
    bool by_daemon; /* the last request was answered by a daemon: the pool is mounted, or about to be */
};

/* args.c: fills c->command, args and options from argv (argv[0] is the program). 0; or SFS_EXIT_USAGE after
 * words on stderr; -1 when help was asked for and printed. */
int sfs_cli_parse(struct sfs_cli *c, int argc, char **argv);
const struct sfs_option *sfs_cli_common_option(unsigned bit); /* the option of one SFS_OPT_* bit */
/* What was given for an option; NULL when it was not (the last one wins). */
const char *sfs_cli_value(const struct sfs_cli *c, const char *name);
bool sfs_cli_flag(const struct sfs_cli *c, const char *name);
/* Words on stderr that begin with the command's name; returns SFS_EXIT_USAGE. */
int sfs_cli_usage(const struct sfs_cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* help.c */
void sfs_help_program(void);
void sfs_help_group(const char *group);
void sfs_help_command(const struct sfs_command *command);
/* The known word nearest to what was typed, or NULL when none is near. */
const char *sfs_help_nearest(const char *typed, const char *const *words, unsigned n);

/* The commands, by noun: cmd_*.c */
int sfs_cmd_pool_create(struct sfs_cli *c);
int sfs_cmd_pool_list(struct sfs_cli *c);
int sfs_cmd_pool_import(struct sfs_cli *c);
int sfs_cmd_pool_export(struct sfs_cli *c);
int sfs_cmd_pool_destroy(struct sfs_cli *c);
int sfs_cmd_pool_set(struct sfs_cli *c);
int sfs_cmd_pool_get(struct sfs_cli *c);
int sfs_cmd_disk_list(struct sfs_cli *c);
int sfs_cmd_disk_add(struct sfs_cli *c);
int sfs_cmd_disk_set(struct sfs_cli *c);
int sfs_cmd_disk_remove(struct sfs_cli *c);
int sfs_cmd_disk_replace(struct sfs_cli *c);
int sfs_cmd_disk_forget(struct sfs_cli *c);
int sfs_cmd_optimize(struct sfs_cli *c);
int sfs_cmd_job_pause(struct sfs_cli *c);
int sfs_cmd_job_resume(struct sfs_cli *c);
int sfs_cmd_job_cancel(struct sfs_cli *c);
int sfs_cmd_space_create(struct sfs_cli *c);
int sfs_cmd_space_list(struct sfs_cli *c);
int sfs_cmd_space_set(struct sfs_cli *c);
int sfs_cmd_space_rename(struct sfs_cli *c);
int sfs_cmd_space_destroy(struct sfs_cli *c);
int sfs_cmd_mount(struct sfs_cli *c);
int sfs_cmd_umount(struct sfs_cli *c);
int sfs_cmd_fstab(struct sfs_cli *c);
int sfs_cmd_status(struct sfs_cli *c);
int sfs_cmd_jobs(struct sfs_cli *c);
int sfs_cmd_events(struct sfs_cli *c);
int sfs_cmd_heal(struct sfs_cli *c);
int sfs_cmd_where(struct sfs_cli *c);
int sfs_cmd_completion(struct sfs_cli *c);
int sfs_cmd_metrics(struct sfs_cli *c);
int sfs_cmd_damage(struct sfs_cli *c);
int sfs_cmd_impact(struct sfs_cli *c);
int sfs_cmd_scrub(struct sfs_cli *c);

#endif
