"""The trigger authors' workbench: fixtures, packs, imports, first triggers and the prompt. Built on TriggerSandbox."""
