/* Parsing, from the table of commands: options anywhere, "--" ends them, --name=value or --name value,
 * -oVALUE or -o VALUE. */
#include "cli/command.h"
#include "cli/ui.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    unsigned bit;
    struct sfs_option option;
} common_options[] = {
    {SFS_OPT_FORCE,
     {"force", 'f', NULL,
      "Overwrite what is on the disks now, be it a filesystem, data or a disk of another pool (never of one in "
      "use). Asks first, unless --yes is given."}},
    {SFS_OPT_YES, {"yes", 'y', NULL, "Don't ask; for scripts."}},
    {SFS_OPT_WATCH, {"watch", 'w', NULL, "Show it again every two seconds, until interrupted."}},
    {SFS_OPT_BYTES, {"bytes", 'b', NULL, "Show sizes as plain numbers of bytes."}},
    {SFS_OPT_JSON, {"json", 0, NULL, "Print JSON."}},
};
#define NCOMMON (sizeof(common_options) / sizeof(common_options[0]))
static const struct sfs_option help_option = {"help", 'h', NULL, "Show this help."};

const struct sfs_option *sfs_cli_common_option(unsigned bit)
{
    for (unsigned i = 0; i < NCOMMON; i++) {
        if (common_options[i].bit == bit)
            return &common_options[i].option;
    }
    return NULL;
}

/* The i-th option of a command: its own, then the common ones, then --help. */
static const struct sfs_option *option_at(const struct sfs_command *command, unsigned i)
{
    for (const struct sfs_option *o = command->options; o && o->name; o++) {
        if (i-- == 0)
            return o;
    }
    for (unsigned k = 0; k < NCOMMON; k++) {
        if ((command->common & common_options[k].bit) && i-- == 0)
            return &common_options[k].option;
    }
    return i == 0 ? &help_option : NULL;
}

static const struct sfs_option *find_option(const struct sfs_command *command, const char *name, size_t len,
                                            char letter)
{
    const struct sfs_option *o;
    for (unsigned i = 0; (o = option_at(command, i)); i++) {
        if (name ? strlen(o->name) == len && !memcmp(o->name, name, len) : o->letter == letter)
            return o;
    }
    return NULL;
}

int sfs_cli_usage(const struct sfs_cli *c, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    size_t len = strlen(text);
    const char *stop = len && strchr(".?!", text[len - 1]) ? "" : ".";
    if (c->command)
        sfs_ui_error("%s: %s%s See `spacesfs %s --help`.", c->command->name, text, stop, c->command->name);
    else
        sfs_ui_error("%s", text);
    return SFS_EXIT_USAGE;
}

static int unknown_option(const struct sfs_cli *c, const char *arg)
{
    const char *names[SFS_CLI_MAX_OPTIONS];
    const struct sfs_option *o;
    unsigned n = 0;
    for (unsigned i = 0; n < SFS_CLI_MAX_OPTIONS && (o = option_at(c->command, i)); i++)
        names[n++] = o->name;
    char typed[64];
    snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
    const char *near = arg[1] == '-' ? sfs_help_nearest(typed, names, n) : NULL;
    if (near)
        return sfs_cli_usage(c, "There is no option %s. Did you mean --%s?", arg, near);
    return sfs_cli_usage(c, "There is no option %s.", arg);
}

static int take_option(struct sfs_cli *c, const struct sfs_option *o, const char *value)
{
    if (c->ngiven == SFS_CLI_MAX_OPTIONS)
        return sfs_cli_usage(c, "Too many options.");
    c->given[c->ngiven].option = o;
    c->given[c->ngiven++].value = value;
    return 0;
}

/* argv[*i] is an option; may take argv[*i + 1] as its value. */
static int parse_option(struct sfs_cli *c, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *value = NULL;
    const struct sfs_option *o;
    if (arg[1] == '-') {
        size_t len = strcspn(arg + 2, "=");
        o = find_option(c->command, arg + 2, len, 0);
        if (o && arg[2 + len] == '=')
            value = arg + 2 + len + 1;
    } else {
        o = find_option(c->command, NULL, 0, arg[1]);
        if (o && arg[2])
            value = arg + 2;
    }
    if (!o)
        return unknown_option(c, arg);
    if (o == &help_option) {
        sfs_help_command(c->command);
        return -1;
    }
    if (!o->value && value)
        return sfs_cli_usage(c, "Option --%s takes no value (%s).", o->name, arg);
    if (o->value && !value) {
        if (*i + 1 >= argc)
            return sfs_cli_usage(c, "Option --%s needs a value: --%s %s.", o->name, o->name, o->value);
        value = argv[++*i];
    }
    return take_option(c, o, value);
}

static int parse_rest(struct sfs_cli *c, int argc, char **argv, int from)
{
    bool only_args = false;
    c->args = argv + from; /* arguments are moved down over the options among them */
    for (int i = from; i < argc; i++) {
        if (!only_args && !strcmp(argv[i], "--")) {
            only_args = true;
        } else if (!only_args && argv[i][0] == '-' && argv[i][1]) {
            int rc = parse_option(c, argc, argv, &i);
            if (rc)
                return rc;
        } else {
            c->args[c->nargs++] = argv[i];
        }
    }
    if ((int)c->nargs < c->command->min_args)
        return sfs_cli_usage(c, "There are too few arguments. Usage: spacesfs %s %s.", c->command->name,
                             c->command->args);
    if (c->command->max_args >= 0 && (int)c->nargs > c->command->max_args)
        return sfs_cli_usage(c, "`%s` is one argument too many. Usage: spacesfs %s%s%s.",
                             c->args[c->command->max_args], c->command->name, c->command->args[0] ? " " : "",
                             c->command->args);
    c->json = sfs_cli_flag(c, "json");
    c->bytes = sfs_cli_flag(c, "bytes");
    c->yes = sfs_cli_flag(c, "yes");
    c->watch = sfs_cli_flag(c, "watch");
    c->force = sfs_cli_flag(c, "force");
    return 0;
}

static const struct sfs_command *find_command(const char *first, const char *second)
{
    char name[128];
    snprintf(name, sizeof(name), "%s%s%s", first, second ? " " : "", second ? second : "");
    for (unsigned i = 0; i < sfs_ncommands; i++) {
        if (!strcmp(sfs_commands[i].name, name))
            return &sfs_commands[i];
    }
    return NULL;
}

static bool is_group(const char *word)
{
    for (unsigned i = 0; i < sfs_ncommand_groups; i++) {
        if (!strcmp(sfs_command_groups[i].name, word))
            return true;
    }
    return false;
}

/* group NULL: a first word that isn't known; else a second one. */
static int unknown_command(const char *group, const char *word)
{
    const char *words[64] = {NULL};
    unsigned n = 0;
    size_t skip = group ? strlen(group) + 1 : 0;
    for (unsigned i = 0; i < sfs_ncommands && n < 64; i++) {
        const char *name = sfs_commands[i].name;
        if (group ? !strncmp(name, group, skip - 1) && name[skip - 1] == ' ' : !strchr(name, ' '))
            words[n++] = name + skip;
    }
    for (unsigned i = 0; !group && i < sfs_ncommand_groups && n < 64; i++)
        words[n++] = sfs_command_groups[i].name;
    const char *near = sfs_help_nearest(word, words, n), *sep = group ? " " : "";
    group = group ? group : "";
    if (near)
        sfs_ui_error("There is no command `%s%s%s`. Did you mean `spacesfs %s%s%s`?", group, sep, word, group,
                     sep, near);
    else
        sfs_ui_error("There is no command `%s%s%s`. `spacesfs%s%s --help` lists what there is.", group, sep,
                     word, *sep ? " " : "", group);
    return SFS_EXIT_USAGE;
}

static bool asks_for_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help");
}

int sfs_cli_parse(struct sfs_cli *c, int argc, char **argv)
{
    if (argc < 2) {
        sfs_ui_error("No command given. `spacesfs --help` lists what there is.");
        return SFS_EXIT_USAGE;
    }
    if (asks_for_help(argv[1])) {
        sfs_help_program();
        return -1;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        printf("spacesfs %s\n", SFS_VERSION);
        return -1;
    }
    int from = 2;
    if (is_group(argv[1])) {
        if (argc < 3) {
            sfs_ui_error("`spacesfs %s` needs a command. `spacesfs %s --help` lists what there is.", argv[1],
                         argv[1]);
            return SFS_EXIT_USAGE;
        }
        if (asks_for_help(argv[2])) {
            sfs_help_group(argv[1]);
            return -1;
        }
        c->command = find_command(argv[1], argv[2]);
        from = 3;
    } else if (!strchr(argv[1], ' ')) {
        c->command = find_command(argv[1], NULL);
    }
    if (!c->command)
        return unknown_command(from == 3 ? argv[1] : NULL, argv[from - 1]);
    return parse_rest(c, argc, argv, from);
}

const char *sfs_cli_value(const struct sfs_cli *c, const char *name)
{
    for (unsigned i = c->ngiven; i-- > 0;) {
        if (!strcmp(c->given[i].option->name, name))
            return c->given[i].value ? c->given[i].value : "";
    }
    return NULL;
}

bool sfs_cli_flag(const struct sfs_cli *c, const char *name)
{
    return sfs_cli_value(c, name) != NULL;
}
