-- Conversations: a log of commits, and one compressed snapshot for each.
create schema if not exists memory_server;

create table memory_server.migrations (number int primary key, applied_at timestamptz not null default now());

create table memory_server.partitions (
  place uuid primary key,                 -- the first 128 bits of SHA-256(tenant NUL kind NUL name)
  tenant text collate "C" not null,
  kind text collate "C" not null,
  name text collate "C" not null,
  version bigint not null,                -- of the last commit
  base bigint not null default 0,         -- the version of the snapshot
  snapshot bytea,                         -- zlib of the JSON that the codec of this kind writes
  snapshot_format int not null default 1,
  pending_bytes bigint not null default 0,
  records int not null default 0,
  changed_at timestamptz not null default now()
);
alter table memory_server.partitions alter column snapshot set storage external;  -- it is compressed already
create index partitions_of_tenant on memory_server.partitions (tenant, kind, name);

-- json, not jsonb, which refuses NUL, makes -0.0 to 0.0 and reorders unknown fields.
create table memory_server.commits (
  place uuid not null,
  version bigint not null,
  token uuid not null,                    -- of the update: settles an unknown outcome
  at_ms bigint not null,
  by text not null,
  archival boolean not null,              -- whether the archive can have changed
  changes json not null,
  primary key (place, version)
);
create index commits_archival on memory_server.commits (place, version) where archival;

create table memory_server.upkeep (
  tenant text collate "C" primary key,
  holder uuid,
  until timestamptz,
  last_run_ms bigint
);

create table memory_server.pauses (
  tenant text collate "C" primary key,
  until_ms bigint                         -- null: until it is ended
);
