"""What the plugin says to people, in Chinese and in English."""

# fmt: off
SENTENCES = {
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
    "paused": (
        "好，从现在起不记你在这里说的话，也不再回想。再发一次 /记忆 暂停 就恢复。",
        "From now on, nothing that you say here is remembered or recalled. /memory pause again ends this.",
    ),
    "private": ("· 还有 {} 条来自私聊，不在群里显示。", "· {} more from a private talk, which are not shown here."),
    "resumed": ("好，又开始记了。", "Remembering again."),
    "undone": ("撤销了。", "Taken back."),
    "would_go": (
        "会忘掉这 {} 条。确定就发送 /记忆 忘 确认：",
        "{} would be forgotten. To do it, send /memory forget yes:",
    ),
}
