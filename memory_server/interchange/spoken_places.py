"""The places of words in a transcript of Claude Code, whose words they are, and what the report of an import calls
words that are left out. One table; transcripts.py reads by it. Pure.

Seen in transcripts that versions 2.1.197 and 2.1.332 wrote in a terminal, with prompts typed while a tool ran, slash
commands, skills, a dialog, a refusal with its reason, the key Escape and a compaction; in the programs of 2.0.30,
2.1.197 and 2.1.332; and in public programs that read transcripts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from languages import N_, _
from memory_server.kernel.values import dataclass
from sandbox import left_out

Whose = Literal["user", "model", "agent", "client"]
"""Who wrote the words: `agent` is another model, such as a teammate or another session."""
TEXT = "text"
"""The field of a place that is told by how a block of text begins: with a tag `<…>`, or with a sentence."""

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


@dataclass(frozen=True, slots=True)
class Place:
    """`record`: the type of a line, and of an attachment after a `/`. `field`: where in it. `mark`: the value of the
    field, or how its text begins; empty: any value that counts as true. `called`: its name in the report."""

    record: str
    field: str
    mark: str
    whose: Whose
    called: str = NOTHING_SAID


PLACES = (
    # Words of the user.
    Place("user", "message.content", "", "user"),
    Place("user", "toolUseResult.answers", "", "user"),
    Place("user", "toolUseResult.annotations", "", "user"),
    Place("user", "userFeedback", "", "user"),
    Place("user", TEXT, "<command-args>", "user"),
    Place("user", TEXT, "<command-name>", "user"),
    Place("user", TEXT, "<user-memory-input>", "user"),
    Place("attachment/queued_command", "attachment.prompt", "", "user"),
    Place("assistant", "message.content", "", "model"),
    # A line as a whole, by a field that it has. An attachment `queued_command` has the same fields.
    Place("user", "isSidechain", "", "agent", SUB_AGENTS),
    Place("user", "isCompactSummary", "", "client", SUMMARIES),
    Place("user", "isMeta", "", "client", FOR_THE_MODEL),
    Place("user", "isVisibleInTranscriptOnly", "", "client", FOR_THE_MODEL),
    Place("user", "turnCompanion", "", "client", FOR_THE_MODEL),
    Place("user", "scheduledTaskId", "", "client", SCHEDULED),
    Place("user", "wakeupSource", "", "client", SCHEDULED),
    Place("user", "planContent", "", "client", PLANS),
    Place("user", "origin.kind", "peer", "agent", AGENTS),
    Place("user", "origin.kind", "coordinator", "agent", AGENTS),
    Place("user", "origin.kind", "observer", "agent", AGENTS),
    Place("user", "origin.kind", "observer-activity", "agent", AGENTS),
    Place("user", "origin.kind", "task-notification", "client", NOTIFICATIONS),
    Place("user", "origin.kind", "auto-continuation", "client", FOR_THE_MODEL),
    Place("user", "origin.kind", "unclassified", "client", FOR_THE_MODEL),
    Place("user", "origin.kind", "channel", "agent", CHANNELS),
    Place("user", "origin.kind", "plugin", "client", CHANNELS),
    Place("user", "origin.kind", "slack-ping", "client", CHANNELS),
    Place("user", "origin.kind", "voice-call", "client", CHANNELS),
    Place("user", "promptSource", "system", "client", FOR_THE_MODEL),
    Place("user", "commandMode", "bash", "user", SHELL),
    Place("user", "commandMode", "task-notification", "client", NOTIFICATIONS),
    Place("user", "commandMode", "poll-event", "client", NOTIFICATIONS),
    Place("assistant", "isSidechain", "", "agent", SUB_AGENTS),
    Place("assistant", "isApiErrorMessage", "", "client", ERRORS),
    Place("assistant", "message.model", "<synthetic>", "client", FOR_THE_MODEL),
    # A part of a text, between a tag and its end.
    Place("user", TEXT, "<agent-message>", "agent", AGENTS),
    Place("user", TEXT, "<teammate-message>", "agent", AGENTS),
    Place("user", TEXT, "<cross-session-message>", "agent", AGENTS),
    Place("user", TEXT, "<coordinator-relay>", "agent", AGENTS),
    Place("user", TEXT, "<fork-boilerplate>", "agent", AGENTS),
    Place("user", TEXT, "<remote-review>", "agent", AGENTS),
    Place("user", TEXT, "<task-notification>", "client", NOTIFICATIONS),
    Place("user", TEXT, "<mcp-resource-update>", "client", NOTIFICATIONS),
    Place("user", TEXT, "<mcp-polling-update>", "client", NOTIFICATIONS),
    Place("user", TEXT, "<tick>", "client", NOTIFICATIONS),
    Place("user", TEXT, "<channel>", "agent", CHANNELS),
    Place("user", TEXT, "<slack-ping>", "agent", CHANNELS),
    Place("user", TEXT, "<slack-tag-message>", "agent", CHANNELS),
    Place("user", TEXT, "<voice-call-talk>", "agent", CHANNELS),
    Place("user", TEXT, "<fetched-web-content>", "agent", CHANNELS),
    Place("user", TEXT, "<untrusted-widget-state>", "agent", CHANNELS),
    Place("user", TEXT, "<system-reminder>", "client"),
    Place("user", TEXT, "<system_reminder>", "client"),
    Place("user", TEXT, "<ide_selection>", "client"),
    Place("user", TEXT, "<ide_opened_file>", "client"),
    Place("user", TEXT, "<ide_diagnostics>", "client"),
    Place("user", TEXT, "<command-message>", "client"),
    Place("user", TEXT, "<command-contents>", "client"),
    Place("user", TEXT, "<skill-format>", "client"),
    Place("user", TEXT, "<user-prompt-submit-hook>", "client", HOOKS),
    Place("user", TEXT, "<post-tool-use-hook>", "client", HOOKS),
    Place("user", TEXT, "<local-command-stdout>", "client", COMMANDS),
    Place("user", TEXT, "<local-command-stderr>", "client", COMMANDS),
    Place("user", TEXT, "<local-command-caveat>", "client"),
    Place("user", TEXT, "<bash-input>", "user", SHELL),
    Place("user", TEXT, "<bash-stdout>", "client"),
    Place("user", TEXT, "<bash-stderr>", "client"),
    Place("user", TEXT, "<bash-exit-code>", "client"),
    # A block of text as a whole, by the sentence with which it begins.
    Place("user", TEXT, "Another Claude session sent a message", "agent", AGENTS),
    Place("user", TEXT, "A peer session sent a message", "agent", AGENTS),
    Place("user", TEXT, "[SYSTEM NOTIFICATION - NOT USER INPUT]", "client", NOTIFICATIONS),
    Place("user", TEXT, "[MESSAGE FROM NON-USER SOURCE - NOT USER INPUT]", "agent", CHANNELS),
    Place("user", TEXT, "[TALK FROM A VOICE CALL - NOT USER INPUT]", "client", CHANNELS),
    Place(
        "user",
        TEXT,
        "[SCHEDULED TASK - AUTOMATED FIRING OF A CONFIGURED PROMPT]",
        "client",
        SCHEDULED,
    ),
    Place(
        "user",
        TEXT,
        "This session is being continued from a previous conversation that",
        "client",
        SUMMARIES,
    ),
    Place(
        "user",
        TEXT,
        "This session is being continued from another machine.",
        "client",
        FOR_THE_MODEL,
    ),
    Place(
        "user",
        TEXT,
        "Caveat: The messages below were generated by the user while running local",
        "client",
    ),
    Place("user", TEXT, "Stop hook feedback:", "client", HOOKS),
    Place("user", TEXT, "SubagentStop hook feedback:", "client", HOOKS),
    Place("user", TEXT, "TeammateIdle hook feedback:", "client", HOOKS),
    Place("user", TEXT, "TaskCompleted hook feedback:", "client", HOOKS),
    # A block of a message.
    Place("assistant", "message.content.type", "thinking", "model", THOUGHTS),
    Place("assistant", "message.content.type", "redacted_thinking", "model", THOUGHTS),
    Place("assistant", "message.content.type", "tool_use", "model", TOOLS),
    Place("assistant", "message.content.type", "server_tool_use", "model", TOOLS),
    Place("user", "message.content.type", "image", "user", PICTURES),
    Place("user", "message.content.type", "document", "user", PICTURES),
    # Attachments other than a prompt that waited.
    Place("attachment/teammate_mailbox", "attachment", "", "agent", AGENTS),
    Place("attachment/plugin_note", "attachment", "", "client", CHANNELS),
    Place("attachment/poll_events", "attachment", "", "client", NOTIFICATIONS),
    Place("attachment/file", "attachment", "", "user", PICTURES),
    Place("attachment/directory", "attachment", "", "user", PICTURES),
    Place("attachment/pdf_reference", "attachment", "", "user", PICTURES),
    Place("attachment/image", "attachment", "", "user", PICTURES),
    Place("attachment/mcp_resource", "attachment", "", "user", PICTURES),
    Place("attachment/hook_blocking_error", "attachment", "", "client", HOOKS),
)


@dataclass(frozen=True, slots=True)
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


def _by_tag() -> Mapping[str, Place]:
    places: dict[str, Place] = {}
    for place in PLACES:
        if place.field == TEXT and place.mark.startswith("<"):
            places[place.mark.strip("<>")] = place
    return places


TAGS = _by_tag()
SENTENCES = tuple(
    place for place in PLACES if place.field == TEXT and not place.mark.startswith("<")
)
BLOCKS = {place.mark: place.called for place in PLACES if place.field == "message.content.type"}
ATTACHMENTS = {
    place.record.partition("/")[2]: place.called
    for place in PLACES
    if place.record.startswith("attachment/")
}


def line_marks(record: str) -> tuple[Place, ...]:
    """Return the places of this type of line that leave it out as a whole."""
    of_parts = (TEXT, "message.content.type")
    return tuple(
        place
        for place in PLACES
        if place.record == record and place.called and place.field not in of_parts
    )
