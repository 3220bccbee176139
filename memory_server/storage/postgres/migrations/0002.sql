-- Knowledge: notes, refs and facts of users with their past, as storage/entries/schema.py has them in SQLite; the record
-- of recalls, and what was erased.
-- Of the transaction: its first letter is `/`, so that none has the tenant "" by mistake.
create function memory_server.tenant() returns text language sql stable as
  $$ select substr(nullif(current_setting('memory_server.tenant', true), ''), 2) $$;

create table memory_server.all_stores (
  tenant text collate "C" primary key default memory_server.tenant(), -- this row is locked by who writes to the knowledge of a tenant
  entries bigint not null default 0,      -- the number of the last entry, also of one that is gone
  operations bigint not null default 0,   -- and of the last operation
  documents bigint not null default 0,    -- entries in the index
  tokens bigint not null default 0,       -- and their terms
  terms text not null                     -- the normal form of these terms
);

create table memory_server.all_settled (       -- writes that were committed: settles an unknown outcome
  tenant text collate "C" not null default memory_server.tenant(), token uuid not null, at timestamptz not null default now(),
  primary key (tenant, token)
);

create table memory_server.all_scopes (
  tenant text collate "C" not null default memory_server.tenant(), id bigint generated always as identity primary key,
  space text collate "C" not null, owner text collate "C" not null default '',
  unique (tenant, space, owner)
);

create table memory_server.all_entries (
  tenant text collate "C" not null default memory_server.tenant(), id bigint not null,
  scope bigint not null references memory_server.all_scopes (id),
  created_ms bigint not null, updated_ms bigint not null, expires_ms bigint, archived_ms bigint, reason text,
  accessed_ms bigint, uses bigint not null, version bigint not null, origin text not null,
  confidence double precision not null check (confidence between 0 and 1),
  importance double precision check (importance between 0 and 1),
  ref text collate "C" not null, kind text collate "C" not null, project text collate "C" not null,
  agent_id text collate "C", run_id text collate "C", key text collate "C", vector_key bytea,
  source text, tags text not null, metadata text not null, title text collate "C" not null,
  examples text collate "C" not null, body text collate "C" not null,
  folded text[] not null,                 -- the tags as they are compared
  primary key (tenant, id), unique (tenant, ref)
);
create unique index entry_key on memory_server.all_entries (scope, kind, project, key)
  where key is not null and archived_ms is null;
create index entry_age on memory_server.all_entries (scope, archived_ms, created_ms);
create index entry_vector on memory_server.all_entries (tenant, vector_key) where vector_key is not null;

-- The index. A lexeme is a term with the number of its scope, such as 7_披萨, or a character with which terms begin,
-- 7_披*. Its positions say how often each field has it: 4 * count + field, with the weight A in the title, B in the
-- tags and C in the body. A vector has at most 1 MB, so those of a long text are several.
create table memory_server.all_terms (
  tenant text collate "C" not null default memory_server.tenant(), entry bigint not null, part int not null,
  size bigint not null,                   -- terms of the entry, in all its parts
  vector tsvector not null,
  primary key (tenant, entry, part)
);
create index terms_vector on memory_server.all_terms using gin (vector) with (gin_pending_list_limit = 256);

create table memory_server.all_operations (
  tenant text collate "C" not null default memory_server.tenant(), seq bigint not null,
  scope bigint not null references memory_server.all_scopes (id), at_ms bigint not null, op text not null, by text not null,
  caller text not null, entries text not null, error text, took_ms double precision, detail text not null,
  primary key (tenant, seq)
);
create index operation_scope on memory_server.all_operations (scope, seq);

create table memory_server.all_changes (
  tenant text collate "C" not null default memory_server.tenant(), rowid bigint generated always as identity,
  operation bigint not null, entry bigint not null, before text, after_version bigint not null,
  primary key (tenant, operation, rowid)
);
create index change_entry on memory_server.all_changes (tenant, entry);

create table memory_server.all_vectors (
  tenant text collate "C" not null default memory_server.tenant(), key bytea not null, vector bytea not null,
  used_ms bigint not null, primary key (tenant, key)
);

create table memory_server.all_model_calls (
  tenant text collate "C" not null default memory_server.tenant(), at_ms bigint not null, provider text, model text,
  purpose text, input_tokens bigint, output_tokens bigint, took_ms double precision, outcome text
);
create index model_call_time on memory_server.all_model_calls (tenant, at_ms);

create table memory_server.all_uses (          -- of entries in files
  tenant text collate "C" not null default memory_server.tenant(), place text collate "C" not null,
  key text collate "C" not null, accessed_ms bigint not null, count bigint not null, primary key (tenant, place, key)
);

create table memory_server.all_copies (        -- former copies of the knowledge of a tenant, as files of SQLite
  tenant text collate "C" not null default memory_server.tenant(), name text collate "C" not null,
  made_ms bigint not null, data bytea not null, primary key (tenant, name)
);
alter table memory_server.all_copies alter column data set storage external;

create table memory_server.all_recalls (       -- the record of recalls
  tenant text collate "C" not null default memory_server.tenant(), id bigint generated always as identity,
  conversation text collate "C" not null, line text not null, primary key (tenant, conversation, id)
);

create table memory_server.all_erasures (      -- a key for the hashes of what was erased, and what is being erased just now
  tenant text collate "C" primary key default memory_server.tenant(), key bytea not null, now text
);
create table memory_server.all_erased (
  tenant text collate "C" not null default memory_server.tenant(), hash text collate "C" not null,
  primary key (tenant, hash)
);

-- What the planner knows of a column are some of its values, which an erasing would not reach.
do $$
declare each record;
begin
  for each in select c.table_name t, c.column_name n from information_schema.columns c
    where c.table_schema = 'memory_server' and c.data_type in ('text', 'tsvector', 'bytea', 'json', 'ARRAY')
      and c.column_name not in ('tenant', 'space', 'kind')
  loop
    execute format('alter table memory_server.%I alter column %I set statistics 0', each.t, each.n);
  end loop;
end $$;

-- What the statements of storage/entries see, which know no tenants: the rows of the tenant of the transaction.
do $$
declare each record;
begin
  for each in select table_name t, string_agg(quote_ident(column_name), ', ' order by ordinal_position) columns
    from information_schema.columns
    where table_schema = 'memory_server' and table_name like 'all\_%' and column_name <> 'tenant' group by table_name
  loop
    execute format('create view memory_server.%I as select %s from memory_server.%I where tenant = memory_server.tenant()',
      substr(each.t, 5), each.columns, each.t);
  end loop;
end $$;

-- A lexeme names its scope, so it finds no row of another tenant; written so, the planner takes the index of lexemes.
create view memory_server.searched as
  select entry, part, size, vector from memory_server.all_terms where tenant || '' = memory_server.tenant();
