"""What in a transcript of Claude Code is not a word of the user or of the model, and what the report of an import calls
it; transcripts.py reads by these tables. Pure.

The words themselves are in `message.content` of a line `user` or `assistant`, in `attachment.prompt` of a prompt that
waited (`queued_command`), in `toolUseResult.answers` and `.annotations` of a dialog, and in `userFeedback` of a refusal.

Seen in transcripts that versions 2.1.197 and 2.1.332 wrote in a terminal, with prompts typed while a tool ran, slash
commands, skills, a dialog, a refusal with its reason, the key Escape and a compaction; in the programs of 2.0.30,
2.1.197 and 2.1.332; and in public programs that read transcripts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from languages import N_, _
from memory_server.kernel.values import frozen
from sandbox import left_out

THOUGHTS = left_out.THOUGHTS
TOOLS = left_out.TOOLS
PICTURES = left_out.PICTURES
FOR_THE_MODEL = left_out.FOR_THE_MODEL
ERRORS = left_out.ERRORS
SUB_AGENTS = N_("messages of sub-agents")
AGENTS = N_("messages of other agents and sessions")
NOTIFICATIONS = N_("notifications of the client")
COMMANDS = N_("commands of the client, with their output")
SHELL = N_("shell commands of the user, with their output")
HOOKS = N_("feedback of hooks")
SUMMARIES = N_("summaries of what was compacted")
SCHEDULED = N_("prompts that a schedule sent")
CHANNELS = N_("messages from channels, plugins and devices")
PLANS = N_("plans that the client sent again")
FORGOTTEN = N_("turns in which something was forgotten")
TAKEN_BACK = N_("turns that the user took back")
SHORTENED = N_("middles of messages of more than 100,000 characters")
BEFORE_THE_LAST = left_out.BEFORE_THE_LAST
WITHOUT_THE_USER = N_("texts of the model in turns in which the user said nothing")
PRIVATE = N_("turns that are private")
DAMAGED = N_("lines that are cut off or are not JSON")
NOTHING_SAID = ""
"""What holds no spoken words is not counted."""


# Of a line as a whole: fields that leave it out, in the order in which they count, and how the report calls it. A field
# with names leaves the line out by its value, any other field where it counts as true. An attachment `queued_command`
# has the fields of a line of the user.
LINES_OF_USER: Mapping[str, str | Mapping[str, str]] = {
    "isSidechain": SUB_AGENTS,
    "isCompactSummary": SUMMARIES,
    "isMeta": FOR_THE_MODEL,
    "isVisibleInTranscriptOnly": FOR_THE_MODEL,
    "turnCompanion": FOR_THE_MODEL,
    "scheduledTaskId": SCHEDULED,
    "wakeupSource": SCHEDULED,
    "planContent": PLANS,
    "origin.kind": {
        "peer": AGENTS,
        "coordinator": AGENTS,
        "observer": AGENTS,
        "observer-activity": AGENTS,
        "task-notification": NOTIFICATIONS,
        "auto-continuation": FOR_THE_MODEL,
        "unclassified": FOR_THE_MODEL,
        "channel": CHANNELS,
        "plugin": CHANNELS,
        "slack-ping": CHANNELS,
        "voice-call": CHANNELS,
    },
    "promptSource": {"system": FOR_THE_MODEL},
    "commandMode": {
        "bash": SHELL,
        "task-notification": NOTIFICATIONS,
        "poll-event": NOTIFICATIONS,
    },
}
LINES_OF_MODEL: Mapping[str, str | Mapping[str, str]] = {
    "isSidechain": SUB_AGENTS,
    "isApiErrorMessage": ERRORS,
    "message.model": {"<synthetic>": FOR_THE_MODEL},
}

# Of a part of a text, between a tag and its end.
TAGS_OF_AGENTS = {
    "agent-message": AGENTS,
    "teammate-message": AGENTS,
    "cross-session-message": AGENTS,
    "coordinator-relay": AGENTS,
    "fork-boilerplate": AGENTS,
    "remote-review": AGENTS,
    "channel": CHANNELS,
    "slack-ping": CHANNELS,
    "slack-tag-message": CHANNELS,
    "voice-call-talk": CHANNELS,
    "fetched-web-content": CHANNELS,
    "untrusted-widget-state": CHANNELS,
}
"""Tags around words of another model or program: a user may paste them."""
TAGS_OF_CLIENT = {
    "task-notification": NOTIFICATIONS,
    "mcp-resource-update": NOTIFICATIONS,
    "mcp-polling-update": NOTIFICATIONS,
    "tick": NOTIFICATIONS,
    "system-reminder": NOTHING_SAID,
    "system_reminder": NOTHING_SAID,
    "ide_selection": NOTHING_SAID,
    "ide_opened_file": NOTHING_SAID,
    "ide_diagnostics": NOTHING_SAID,
    "command-message": NOTHING_SAID,
    "command-contents": NOTHING_SAID,
    "skill-format": NOTHING_SAID,
    "user-prompt-submit-hook": HOOKS,
    "post-tool-use-hook": HOOKS,
    "local-command-stdout": COMMANDS,
    "local-command-stderr": COMMANDS,
    "local-command-caveat": NOTHING_SAID,
    "bash-input": SHELL,
    "bash-stdout": NOTHING_SAID,
    "bash-stderr": NOTHING_SAID,
    "bash-exit-code": NOTHING_SAID,
}
TAGS_OF_USER = ("command-args", "command-name", "user-memory-input")
"""Tags around words of the user, which stay."""
TAGS = {**dict.fromkeys(TAGS_OF_USER, NOTHING_SAID), **TAGS_OF_CLIENT, **TAGS_OF_AGENTS}

# Of a block of text as a whole, by the sentence with which it begins.
SENTENCES = {
    "Another Claude session sent a message": AGENTS,
    "A peer session sent a message": AGENTS,
    "[SYSTEM NOTIFICATION - NOT USER INPUT]": NOTIFICATIONS,
    "[MESSAGE FROM NON-USER SOURCE - NOT USER INPUT]": CHANNELS,
    "[TALK FROM A VOICE CALL - NOT USER INPUT]": CHANNELS,
    "[SCHEDULED TASK - AUTOMATED FIRING OF A CONFIGURED PROMPT]": SCHEDULED,
    "This session is being continued from a previous conversation that": SUMMARIES,
    "This session is being continued from another machine.": FOR_THE_MODEL,
    "Caveat: The messages below were generated by the user while running local": NOTHING_SAID,
    "Stop hook feedback:": HOOKS,
    "SubagentStop hook feedback:": HOOKS,
    "TeammateIdle hook feedback:": HOOKS,
    "TaskCompleted hook feedback:": HOOKS,
}

# Of a block of a message, by its type.
BLOCKS = {
    "thinking": THOUGHTS,
    "redacted_thinking": THOUGHTS,
    "tool_use": TOOLS,
    "server_tool_use": TOOLS,
    "image": PICTURES,
    "document": PICTURES,
}

# Of an attachment that is not a prompt that waited, by its type.
ATTACHMENTS = {
    "teammate_mailbox": AGENTS,
    "plugin_note": CHANNELS,
    "poll_events": NOTIFICATIONS,
    "file": PICTURES,
    "directory": PICTURES,
    "pdf_reference": PICTURES,
    "image": PICTURES,
    "mcp_resource": PICTURES,
    "hook_blocking_error": HOOKS,
}


@frozen
class Program:
    """A client whose prompts a program writes: the first line of a turn, or what a file says of its session, has the
    `value` in this `field`. `if_once`: only in a session with one prompt, because people type in front-ends on an SDK,
    too. `name`: the speaker of its prompts."""

    field: str
    value: str
    name: str
    if_once: bool = False


PROGRAMS = (
    # Claude Code: the programs of 2.1.100 and 2.1.332.
    Program("entrypoint", "sdk-cli", "claude -p"),
    Program("entrypoint", "claude-code-github-action", "claude-code-action"),
    Program("entrypoint", "sdk-ts", "Claude Agent SDK", if_once=True),
    Program("entrypoint", "sdk-py", "Claude Agent SDK", if_once=True),
    Program("promptSource", "sdk", "Claude Agent SDK", if_once=True),
    # Codex: SessionSource of codex-rs/protocol, and the originator of its SDK, which runs `codex exec`.
    Program("originator", "codex_sdk_ts", "Codex SDK", if_once=True),
    Program("source", "exec", "codex exec"),
    Program("source", "mcp", "codex mcp-server"),
)
"""The first that fits counts. Gemini CLI does not note who wrote a prompt."""
_OBSERVERS = {"/.claude-mem/observer-sessions": "claude-mem"}
"""Working folders of programs that watch other sessions by sessions of their own."""


def program_of(first: Mapping[str, Any], prompts: int, named: Collection[str]) -> str:
    """Return the program that wrote the prompts of a session with so many of them; empty if a person did. `first`:
    the first line of a turn, or what its file says of the session. `named`: values that belong to programs, as a user
    said."""
    folder = str(first.get("cwd") or "").replace("\\", "/")
    for part, name in _OBSERVERS.items():
        if f"{part}/" in f"{folder}/":
            return name
    for field in ("entrypoint", "originator", "source"):
        if first.get(field) in named:
            return str(first[field])
    for program in PROGRAMS:
        if first.get(program.field) == program.value:
            return "" if program.if_once and prompts > 1 else program.name
    return ""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


RECORDS_WITHOUT_WORDS = _names(
    """agent-color agent-name agent-setting ai-title api-request api-request-blob api-request-resumed api-request-shape
    artifact-autoreact-ledger artifact-comment-monitor atis-latch attribution-snapshot bridge-session
    content-replacement continued-in cost-state custom-title data-flow-incomplete data-flow-records derived-from
    dev-mods ended-by-model file-history-delta file-history-snapshot fork-context-ref frame-link history-suppression
    host-row hybrid-organization isolation-latch last-prompt memory-mode mode observer-ref permission-mode pr-link
    progress queue-operation relocated repl-mode resume-head-vouch session-owner summary system tag tools-used
    worktree-state
    agent_mode hook.end hook.start session.end session.error session.info session.model_change session.resume
    session.shutdown session.start session.truncation skill.invoked tool.execution_complete
    tool.execution_partial_result tool.execution_progress tool.execution_start tool.user_requested
    assistant.turn_end assistant.turn_start assistant.reasoning assistant.usage system.message"""
)
"""Types of lines of Claude Code, and after them of VS Code, without spoken words: states, titles and settings. A
prompt that waits is a `queue-operation` first; when it is given to the model, it becomes a line or an attachment."""
ATTACHMENTS_WITHOUT_WORDS = _names(
    """account_memory_recall advisor_stripped advisor_tool agent_ask_notice agent_listing_delta agent_mention
    already_read_file api_metrics argument_not_text artifact_opening_prefetch async_hook_response auto_mode
    auto_mode_exit batching_reminder batching_reminder_sent claude_app_notice command_permissions
    compact_file_reference companion_intro context_efficiency context_sections coordinator_context
    cowork_memory_context critical_system_reminder current_session_memory date date_change deferred_tools_delta
    deferred_tools_record diagnostics dir_sync_notice dynamic_skill edited_image_file edited_text_file environment
    first_week fork_briefing get_hooks_listing hook_additional_context hook_cancelled hook_deferred_tool
    hook_error_during_execution hook_non_blocking_error hook_permission_decision hook_stopped_continuation
    hook_success hook_system_message inlined_image_paths instructions invoked_skills language max_turns_reached
    mcp_instructions_delta message_pdf_reads model nested_memory new_directory new_file opened_file_in_ide
    output_limit_note output_style output_style_instructions output_token_usage peer_mention plan_file_reference
    plan_mode plan_mode_exit plan_mode_reentry project_doc_reads projects_thread_ask prompt_as_file
    prompt_render_point prompt_snapshot read_truncation_notice relevant_memories remote_session_change
    repl_mcp_needs_auth sandbox_instructions secondary_reminder secondary_reminder_sent selected_lines_in_ide
    session_context session_cron_carry silent_turn_reminder skill_listing structured_output task_reminder task_status
    team_context thinking_stripped todo todo_reminder token_usage tool_host_result_lines tool_hosts_notice
    tool_offer_record tool_results_cut tool_use_summary total_tokens_reminder ultra_effort_enter ultra_effort_exit
    ultramemory verify_plan_reminder workflow_size_guideline_change"""
)
"""Types of attachments that only tell the model about the state of the client."""
CLIENT_COMMANDS = _names(
    """add-dir agents bashes bug clear color compact config context copy cost doctor effort exit export extra-usage
    fast feedback help hooks ide install-github-app install-slack-app keybindings login logout mcp memory mobile model
    output-style passes permissions plugin privacy-settings quit rate-limit-options release-notes reload-plugins
    remote-control remote-env rename resume rewind sandbox skills stats status tag tasks terminal-setup theme todos
    upgrade usage vim voice"""
)
"""Slash commands that the client runs by itself: what follows them is a setting, and no model reads it. The words after
any other command, such as a skill, are a request."""


def unknown_record(kind: str) -> str:
    """Return the name in the report of a line that no place tells."""
    return _("lines of the unknown kind {kind}", kind[:60])
