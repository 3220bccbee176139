"""What the plugin says to people and to the bot's model, in Chinese and in English."""

# fmt: off
SENTENCES = {
    "away": ("现在问不到记忆。", "The memory cannot be asked now."),
    "bot": ("机器人", "Bot"),
    "failed": ("记忆没有做到：{}", "The memory did not do it: {}"),
    "forgotten": ("忘掉了。发送 /记忆 撤销 可以找回来。", "Forgotten. /memory undo brings it back."),
    "help": ("""/记忆 看：最近记住的
/记忆 找 词语：找一找
/记忆 忘 词语：忘掉含这些词的（先列出来，再确认）
/记忆 撤销：收回最近一次
/记忆 为什么：上一个回答想起了什么，为什么
/记忆 暂停：不再记我说的话；再发一次恢复""", """/memory list: what was remembered last
/memory find WORDS: look for something
/memory forget WORDS: forget what has these words (shown first, then confirmed)
/memory undo: take back the last change
/memory why: what came to the last answer, and why
/memory pause: remember nothing of what I say; the same again ends it"""),
    "listed": ("这里共有 {} 条：", "{} here:"),
    "no_change": ("没有可以撤销的。", "There is nothing to take back."),
    "nothing": ("没有找到。", "Nothing was found."),
    "nothing_came": ("上一个回答没有想起什么。", "Nothing came to the last answer."),
    "nothing_for_model": ("没有想起什么。", "Nothing came to mind."),
    "paused": (
        "好，从现在起不记你在这里说的话，也不再回想。再发一次 /记忆 暂停 就恢复。",
        "From now on, nothing that you say here is remembered or recalled. /memory pause again ends this.",
    ),
    "private": ("· 还有 {} 条来自私聊，不在群里显示。", "· {} more from a private talk, which are not shown here."),
    "resumed": ("好，又开始记了。", "Remembering again."),
    "tool": (
        "再想一次以前说过的事。用户提到以前可能说过的事、却没有想起来时调用；闲聊时不用。",
        (
            "Recall once more what was said before. Call it when the user touches something that may have been said "
            "before and nothing came; not for small talk."
        ),
    ),
    "tool_otherWords": (
        "别的说法，用聊天的语言：事物、人、地方、场合、心情",
        "Other words for it, in the language of the chat: things, people, places, occasions, feelings",
    ),
    "tool_query": ("要找什么", "What you look for"),
    "undone": ("撤销了。", "Taken back."),
    "would_go": (
        "会忘掉这 {} 条。确定就发送 /记忆 忘 确认：",
        "{} would be forgotten. To do it, send /memory forget yes:",
    ),
}
