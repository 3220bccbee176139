"""Notes in several languages, made from a seed: some 300 characters each, as developers write them."""

from __future__ import annotations

from random import Random

from memory_server.knowledge.entry import Entry
from nlp.index_terms import index_form

NOW = 1_750_000_000_000
_SENTENCES = {
    "zh": """订单服务|用户中心|消息队列|缓存层|搜索索引|日志系统|配置中心|网关|权限模块|报表|文件上传|登录流程
使用|依赖|通过|写入|读取|监听|校验|转发|合并|清理
异步队列|双写策略|读写分离|分布式锁|定时任务|灰度发布|回滚脚本|熔断规则|限流阈值|索引重建|幂等校验
，因为上线时出过问题。|，改动前先问负责人。|，每周五检查一次。|，失败后重试三次。|，文档在仓库里。""",
    "en": """the scheduler|our gateway|the build|each worker|the parser|the upload service|the cache|the report job
reads|writes|validates|retries|rejects|forwards|stores|compresses
every request|the payload|stale rows|large files|the manifest|session tokens|signed urls
 because of a past outage.| before each release.| in batches of fifty.| unless the flag is set.""",
    "ja": """このサービス|管理画面|バッチ処理|認証機能|通知機能
は
設定ファイルを読み込みます|結果を保存します|古い行を削除します|画像を変換します
。""",
    "ko": """서버는|화면은|작업은
매일|자주|가끔
로그를 저장한다|파일을 읽는다|값을 검사한다
. """,
    "ru": """сервер|модуль|кэш
читает|пишет|хранит
файлы|запросы|строки
. """,
}
_PARTS = {name: [row.split("|") for row in rows.split("\n")] for name, rows in _SENTENCES.items()}


def mixed_text(rng: Random, chars: int = 300) -> str:
    """Sentences in a language and some of another."""
    text = ""
    first, second = rng.sample(["zh", "en", "zh", "en", "ja", "ko", "ru"], 2)
    while len(text) < chars:
        language = first if rng.random() < 0.8 else second
        subjects, verbs, objects, ends = _PARTS[language]
        text += f"{rng.choice(subjects)} {rng.choice(verbs)} {rng.choice(objects)} {rng.randrange(1000)}{rng.choice(ends)} "
    return text


def mixed_notes(count: int, seed: int = 7) -> list[Entry]:
    """Notes to store, with topics that differ."""
    rng = Random(seed)
    notes = []
    for number in range(count):
        text = mixed_text(rng)
        title = f"{text[:20].strip()} {number}"
        notes.append(
            Entry(
                text,
                kind=rng.choice(["tech", "project-tech", "domain"]),
                key=index_form(title),
                title=title,
                tags=tuple(rng.sample(["api", "后端", "infra", "設計", "build"], 2)),
                uses=rng.randrange(4),
                created_ms=NOW + number,
                updated_ms=NOW + number,
            )
        )
    return notes
